// The host's time to enqueue a decoder block beside the time that all of it takes: while the first
// is much shorter, the GPU never waits for the host, and captured graphs would gain nothing.
#include <fmt/format.h>

#include "models/decoder_block.h"
#include "tests/gpu/measurements.h"

namespace strata::gpu_bench {
namespace {

using models::Family;

struct BlockCase {
  const char* name;
  Family family;
  std::int64_t hidden;
  std::int64_t heads;
  std::int64_t kv_heads;
  std::int64_t intermediate;
  std::int64_t sequences;
  std::int64_t tokens;
};
constexpr BlockCase kBlocks[] = {
    {"gpt2-124m", Family::gpt2, 768, 12, 12, 3072, 8, 1024},
    {"gpt2-124m", Family::gpt2, 768, 12, 12, 3072, 1, 1024},
    {"llama3-8b", Family::llama, 4096, 32, 8, 14336, 1, 1024},
};
constexpr BlockCase kTinyBlocks[] = {{"odd", Family::gpt2, 24, 3, 3, 40, 2, 13},
                                     {"odd", Family::llama, 32, 4, 2, 48, 1, 13}};

models::ModelConfig config_of(const BlockCase& of) {
  models::ModelConfig config;
  config.hidden = of.hidden;
  config.heads = of.heads;
  config.kv_heads = of.kv_heads;
  config.intermediate = of.intermediate;
  apply_family(config, of.family);
  resolve_shape(config);
  if (of.family != Family::gpt2) config.rotary = models::RotaryConfig{.head_dim = config.head_dim};
  return config;
}

// A block with everything that its calls take.
class BlockOnGpu {
 public:
  BlockOnGpu(Bench& bench, const BlockCase& of)
      : bench_(bench),
        config_(config_of(of)),
        cos_(bench.random(Dtype::f32, of.tokens, config_.head_dim / 2)),
        sin_(bench.random(Dtype::f32, of.tokens, config_.head_dim / 2)),
        positions_(bench.ids(positions(of))),
        batch_{of.sequences, of.tokens, positions_.i32()},
        block_(config_, Dtype::bf16, batch_, {cos_.f32(), sin_.f32(), of.tokens, config_.head_dim}),
        elements_(models::block_unit(config_, 0).spec.elements),
        weights_(bench.random(Dtype::bf16, 1, elements_)),
        gradients_(bench.random(Dtype::f32, 1, elements_)),
        x_(activations(of.sequences * of.tokens)),
        out_(activations(of.sequences * of.tokens)),
        saved_(bench.device().allocate("saved", block_.saved_bytes())),
        workspace_(bench.device().allocate("workspace", block_.workspace_bytes())),
        keys_(bench.random(Dtype::bf16, of.tokens, config_.kv_channels())),
        values_(bench.random(Dtype::bf16, of.tokens, config_.kv_channels())) {}

  // Ops with plans for its attention.
  void attach_ops() {
    ops::PlannedAttention planned = block_.planned_attention();
    planned.has_backward = true;
    bench_.attach_ops(planned);
  }
  void train() {
    Stream& stream = bench_.stream();
    block_.forward(stream, batch_, weights_.memory.data(), x_.memory.data(), saved_.data(),
                   out_.memory.data());
    block_.backward(stream, batch_, weights_.memory.data(), gradients_.f32(), ops::Into::add,
                    x_.memory.data(), saved_.data(), out_.memory.data(), out_.memory.data(),
                    workspace_.data());
  }
  // The last token of a full cache.
  void decode() {
    block_.decode(bench_.stream(), {1, 1, positions_.i32()}, batch_.tokens - 1,
                  {keys_.view, values_.view}, weights_.memory.data(), x_.memory.data(),
                  saved_.data(), out_.memory.data());
  }

 private:
  static std::vector<std::int32_t> positions(const BlockCase& of) {
    std::vector<std::int32_t> all(static_cast<std::size_t>(of.sequences * of.tokens));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i] = static_cast<std::int32_t>(i % static_cast<std::size_t>(of.tokens));
    }
    return all;
  }
  Operand activations(std::int64_t rows) {
    return bench_.random(Dtype::bf16, rows, config_.hidden);
  }

  Bench& bench_;
  models::ModelConfig config_;
  Operand cos_;
  Operand sin_;
  Operand positions_;
  models::Batch batch_;
  models::DecoderBlock block_;
  std::int64_t elements_;
  Operand weights_;
  Operand gradients_;
  Operand x_;
  Operand out_;
  DeviceBuffer saved_;
  DeviceBuffer workspace_;
  Operand keys_;
  Operand values_;
};

void measure_block(Bench& bench, const BlockCase& of) {
  BlockOnGpu block(bench, of);
  block.attach_ops();
  const auto run = [&](const std::string& name, auto enqueue) {
    const double seconds = bench.seconds(enqueue);
    report_enqueue(name, bench.host_seconds(enqueue), seconds);
  };
  run(fmt::format("{} block {}x{} forward and backward", of.name, of.sequences, of.tokens),
      [&] { block.train(); });
  run(fmt::format("{} block, 1 token after {}", of.name, of.tokens - 1), [&] { block.decode(); });
}

}  // namespace

void measure_enqueue(Bench& bench) {
  if (bench.scale() == Scale::tiny) {
    for (const BlockCase& of : kTinyBlocks) measure_block(bench, of);
  } else {
    for (const BlockCase& of : kBlocks) measure_block(bench, of);
  }
}

}  // namespace strata::gpu_bench
