// Gemm: one compiled matmul on one tile, C (m, n) = or += A (m, k) · B (k, n) + bias (n), through
// oneDNN; and the cache of all that were compiled.
//
// A Gemm runs on the calling thread alone (OpenMP is told "one thread" there), so its bits depend
// on its GemmSpec only. Several threads may run one Gemm at once: each brings its worker's index,
// which picks memory objects made at compilation. After compilation run() allocates nothing of
// ours; oneDNN itself makes small tables, and its older kernels pack operands into memory of their
// own. JIT code is invisible to ThreadSanitizer: whoever launches the op annotates the operands.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/base/dtype.h"
#include "kernels/base/isa.h"
#include "kernels/ops/view.h"

namespace strata::ops::cpu {

// How an operand lies in memory: plain rows, or the rows of its transpose.
enum class Layout : std::uint8_t { plain, transposed };
enum class Bias : std::uint8_t { none, per_column };

struct GemmSpec {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t a_stride = 0;  // elements from one row in memory to the next
  std::int64_t b_stride = 0;
  std::int64_t c_stride = 0;
  Layout a_layout = Layout::plain;
  Layout b_layout = Layout::plain;
  Dtype operands = Dtype::f32;  // of A, B and the bias
  Dtype result = Dtype::f32;
  Into into = Into::overwrite;
  Bias bias = Bias::none;

  friend bool operator==(const GemmSpec&, const GemmSpec&) = default;
};

struct GemmSpecHash {
  std::size_t operator()(const GemmSpec& spec) const;
};

// What a worker lends a Gemm while it runs. Larger needs are met by oneDNN's own, slower, memory.
inline constexpr std::int64_t kGemmScratchpadBytes = std::int64_t{1} << 20;

class Gemm {
 public:
  // Throws Error when the library refuses.
  Gemm(dnnl_engine_t engine, const GemmSpec& spec, int worker_slots);
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  // `scratchpad`: kGemmScratchpadBytes that belong to this worker. Throws Error.
  void run(int worker, void* c, const void* a, const void* b, const void* bias,
           void* scratchpad) const;

 private:
  static constexpr int kArguments = 5;  // A, B, C, scratchpad, bias
  template <typename T, auto destroy>
  struct Destroy {
    void operator()(T* object) const { destroy(object); }
  };
  template <typename T, auto destroy>
  using Owned = std::unique_ptr<T, Destroy<T, destroy>>;
  using OwnedMemory = Owned<dnnl_memory, dnnl_memory_destroy>;
  struct Worker {
    Owned<dnnl_stream, dnnl_stream_destroy> stream;
    std::array<OwnedMemory, kArguments> memory;
  };

  Owned<dnnl_primitive, dnnl_primitive_destroy> primitive_;
  int arguments_;
  std::vector<Worker> workers_;
};

// Thread-safe.
class GemmCache {
 public:
  explicit GemmCache(int worker_slots) : worker_slots_(worker_slots) {}
  ~GemmCache();
  GemmCache(const GemmCache&) = delete;
  GemmCache& operator=(const GemmCache&) = delete;

  // Compiles on first use. The Gemm lives as long as the cache.
  const Gemm& get(const GemmSpec& spec);

  // Whether the library multiplies bf16 with the instruction set it uses here.
  bool multiplies_bf16();

 private:
  dnnl_engine_t engine();  // the library is first touched when something is multiplied

  int worker_slots_;
  std::shared_mutex mutex_;
  dnnl_engine_t engine_ = nullptr;
  std::optional<bool> multiplies_bf16_;
  std::unordered_map<GemmSpec, std::unique_ptr<Gemm>, GemmSpecHash> gemms_;
};

// Keeps the library from using more than `isa` has. It holds for the whole process and only before
// the library's first use: throws ConfigError when the library already uses more.
void limit_library_isa(Isa isa);

// "oneDNN 2.6.3, avx512_core_bf16"
std::string library_description();

}  // namespace strata::ops::cpu
