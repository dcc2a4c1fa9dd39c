#include "engine/checkpoint/commit_fillers.h"
#include "engine/step/agreement.h"

namespace strata::engine {

void InPlaceFiller::fill(offload::StateStore& store, StateAccess& access, AlignedSpan staging) {
  const OpenedShard& shard = source_.kept().at(source_.comm().rank());
  const store::CommitTable& table = shard.commit(source_.choice().sequence.value()).table;
  const offload::Plan& plan = store.plan();
  VerifiedBlocks verified(staging, plan.largest_block_bytes(), workers_, source_.failure());
  for (int unit = 0; unit < std::ssize(plan.units); ++unit) {
    std::exception_ptr failure;
    try {
      const std::vector<StoredBlock> blocks = blocks_of(shard, table, unit);
      verified.read(blocks, [&](std::size_t index, std::span<const std::byte> bytes) {
        const StoredBlock& b = blocks[index];
        if (store.tier(unit, b.kind) == offload::Tier::nvme) return;
        access.write(unit, b.kind, b.block * plan.block_bytes(b.kind), bytes);
      });
    } catch (const Error&) {
      failure = std::current_exception();
    }
    source_.settle(failure);
  }
  agree(source_.comm(), [&] { access.flush(); });
  store.adopt(table);
}

}  // namespace strata::engine
