#include "engine/plan/model_walk.h"

#include "kernels/base/error.h"

namespace strata::engine {

UnitIndex index_units(const std::vector<models::UnitSpec>& units) {
  UnitIndex index;
  for (int i = 0; i < static_cast<int>(units.size()); ++i) {
    switch (units[static_cast<std::size_t>(i)].role) {
      case models::UnitRole::token_table:
        index.token_chunks.push_back(i);
        break;
      case models::UnitRole::position_table:
        index.positions = i;
        break;
      case models::UnitRole::block:
        index.blocks.push_back(i);
        break;
      case models::UnitRole::final_norm:
        index.final_norm = i;
        break;
      case models::UnitRole::head_table:
        index.head_chunks.push_back(i);
        break;
    }
  }
  STRATA_CHECK(index.final_norm >= 0 && !index.token_chunks.empty());
  if (index.head_chunks.empty()) index.head_chunks = index.token_chunks;
  return index;
}

int block_record(const WalkShape& shape, int layer, int micro_batch) {
  return layer % shape.block_records() * shape.micro_batches_max + micro_batch;
}

int normed_record(const WalkShape& shape, int micro_batch) {
  return shape.block_records() * shape.micro_batches_max + micro_batch;
}

int dnormed_record(const WalkShape& shape, int micro_batch) {
  STRATA_CHECK(shape.purpose == Purpose::training);
  return normed_record(shape, micro_batch) + shape.micro_batches_max;
}

int saved_record(const WalkShape& shape, int layer, int micro_batch) {
  STRATA_CHECK(shape.keeps_saved());
  return dnormed_record(shape, micro_batch) + (1 + layer) * shape.micro_batches_max;
}

UnitWalk unit_walk(const UnitIndex& units, WalkKind kind) {
  UnitWalk walk;
  std::vector<int>& uses = walk.uses;
  const auto append = [&](const std::vector<int>& more) {
    uses.insert(uses.end(), more.begin(), more.end());
  };
  if (kind == WalkKind::gathering) {
    uses = first_use_order(units);
    return walk;
  }
  if (units.learned_positions()) uses.push_back(units.positions);
  append(units.token_chunks);
  append(units.blocks);
  uses.push_back(units.final_norm);
  append(units.head_chunks);
  walk.forward_uses = static_cast<std::int64_t>(uses.size());
  if (kind != WalkKind::training) return walk;
  append(units.head_chunks);
  uses.push_back(units.final_norm);
  uses.insert(uses.end(), units.blocks.rbegin(), units.blocks.rend());
  return walk;
}

namespace {

// Numbers the turns of a walk as it is written down.
class Turns {
 public:
  void next() { ++turn_; }
  int now() const { return turn_; }
  void reads(int record) { add(record, true, false); }
  void writes(int record) { add(record, false, true); }
  void updates(int record) { add(record, true, true); }
  std::vector<offload::RecordAccess> take() { return std::move(accesses_); }

 private:
  void add(int record, bool read, bool write) { accesses_.push_back({turn_, record, read, write}); }
  std::vector<offload::RecordAccess> accesses_;
  int turn_ = 0;
};

void walk_forward(Turns& turns, const WalkShape& shape, WalkKind kind) {
  const auto each = [&](auto&& visit) {
    for (int j = 0; j < shape.micro_batches; ++j, turns.next()) visit(j);
  };
  const int tables = shape.token_chunks + (shape.learned_positions ? 1 : 0);
  for (int t = 0; t < tables; ++t) {
    each([&](int j) {
      const int input = block_record(shape, 0, j);
      t == 0 ? turns.writes(input) : turns.updates(input);
    });
  }
  const bool keeps_saved = kind == WalkKind::training && shape.keeps_saved();
  for (int layer = 0; layer < shape.layers; ++layer) {
    each([&](int j) {
      turns.reads(block_record(shape, layer, j));
      turns.writes(block_record(shape, layer + 1, j));
      if (keeps_saved) turns.writes(saved_record(shape, layer, j));
    });
  }
  each([&](int j) {
    turns.reads(block_record(shape, shape.layers, j));
    turns.writes(normed_record(shape, j));
  });
  for (int c = 0; c < shape.head_chunks; ++c) {
    each([&](int j) { turns.reads(normed_record(shape, j)); });
  }
}

void walk_backward(Turns& turns, const WalkShape& shape) {
  const auto each = [&](auto&& visit) {
    for (int j = 0; j < shape.micro_batches; ++j, turns.next()) visit(j);
  };
  for (int c = 0; c < shape.head_chunks; ++c) {
    each([&](int j) {
      turns.reads(normed_record(shape, j));
      const int gradient = dnormed_record(shape, j);
      c == 0 ? turns.writes(gradient) : turns.updates(gradient);
    });
  }
  each([&](int j) {
    turns.updates(block_record(shape, shape.layers, j));
    turns.reads(dnormed_record(shape, j));
  });
  for (int layer = shape.layers; layer-- > 0;) {
    each([&](int j) {
      turns.updates(block_record(shape, layer, j));
      turns.reads(block_record(shape, layer + 1, j));
      if (shape.keeps_saved()) turns.reads(saved_record(shape, layer, j));
    });
  }
  const int tables = shape.token_chunks + (shape.learned_positions ? 1 : 0);
  for (int t = 0; t < tables; ++t) {
    each([&](int j) { turns.reads(block_record(shape, 0, j)); });
  }
}

}  // namespace

RecordWalk record_walk(const WalkShape& shape, WalkKind kind) {
  Turns turns;
  if (kind != WalkKind::gathering) walk_forward(turns, shape, kind);
  RecordWalk walk;
  walk.backward_turn = turns.now();
  if (kind == WalkKind::training) walk_backward(turns, shape);
  walk.accesses = turns.take();
  return walk;
}

std::vector<int> first_use_order(const UnitIndex& units) {
  std::vector<int> order;
  if (units.learned_positions()) order.push_back(units.positions);
  order.insert(order.end(), units.token_chunks.begin(), units.token_chunks.end());
  order.insert(order.end(), units.blocks.begin(), units.blocks.end());
  order.push_back(units.final_norm);
  if (!units.tied()) order.insert(order.end(), units.head_chunks.begin(), units.head_chunks.end());
  return order;
}

std::vector<int> gradient_order(const UnitIndex& units) {
  std::vector<int> order;
  if (!units.tied()) order = units.head_chunks;
  order.push_back(units.final_norm);
  order.insert(order.end(), units.blocks.rbegin(), units.blocks.rend());
  if (units.learned_positions()) order.push_back(units.positions);
  order.insert(order.end(), units.token_chunks.begin(), units.token_chunks.end());
  return order;
}

}  // namespace strata::engine
