#include "kernels/ops/cpu/gemm.h"

#include <omp.h>

#include <mutex>

#include "kernels/base/error.h"

namespace strata::ops::cpu {
namespace {

void check_status(dnnl_status_t status, const char* operation) {
  if (status != dnnl_success) {
    throw_error<Error>("oneDNN failed to {}: status {}", operation, static_cast<int>(status));
  }
}

dnnl_data_type_t data_type(Dtype dtype) { return dtype == Dtype::f32 ? dnnl_f32 : dnnl_bf16; }

dnnl_memory_desc_t describe(std::int64_t rows, std::int64_t cols, std::int64_t stride,
                            Layout layout, Dtype dtype) {
  const dnnl_dims_t dims = {rows, cols};
  const dnnl_dims_t plain = {stride, 1};
  const dnnl_dims_t transposed = {1, stride};
  dnnl_memory_desc_t description;
  check_status(dnnl_memory_desc_init_by_strides(&description, 2, dims, data_type(dtype),
                                                layout == Layout::plain ? plain : transposed),
               "describe a matrix");
  return description;
}

struct Descriptions {
  dnnl_memory_desc_t a;
  dnnl_memory_desc_t b;
  dnnl_memory_desc_t c;
  dnnl_memory_desc_t bias;
};

Descriptions describe(const GemmSpec& spec) {
  return {
      .a = describe(spec.m, spec.k, spec.a_stride, spec.a_layout, spec.operands),
      .b = describe(spec.k, spec.n, spec.b_stride, spec.b_layout, spec.operands),
      .c = describe(spec.m, spec.n, spec.c_stride, Layout::plain, spec.result),
      .bias = describe(1, spec.n, spec.n, Layout::plain, spec.operands),
  };
}

using PrimitiveDescription =
    std::unique_ptr<dnnl_primitive_desc, dnnl_status_t (*)(dnnl_primitive_desc*)>;

// Null when the library has no such matmul.
PrimitiveDescription describe_primitive(dnnl_engine_t engine, const GemmSpec& spec,
                                        dnnl_scratchpad_mode_t scratchpad) {
  const Descriptions operands = describe(spec);
  dnnl_matmul_desc_t matmul;
  check_status(
      dnnl_matmul_desc_init(&matmul, &operands.a, &operands.b,
                            spec.bias == Bias::per_column ? &operands.bias : nullptr, &operands.c),
      "describe a matmul");

  dnnl_primitive_attr_t attributes = nullptr;
  check_status(dnnl_primitive_attr_create(&attributes), "make attributes");
  const std::unique_ptr<dnnl_primitive_attr, decltype(&dnnl_primitive_attr_destroy)>
      attributes_owner(attributes, &dnnl_primitive_attr_destroy);
  check_status(dnnl_primitive_attr_set_scratchpad_mode(attributes, scratchpad),
               "set the scratchpad mode");
  if (spec.into == Into::add) {
    dnnl_post_ops_t post_ops = nullptr;
    check_status(dnnl_post_ops_create(&post_ops), "make post-ops");
    const std::unique_ptr<dnnl_post_ops, decltype(&dnnl_post_ops_destroy)> post_ops_owner(
        post_ops, &dnnl_post_ops_destroy);
    check_status(dnnl_post_ops_append_sum(post_ops, 1.0f), "add a sum post-op");
    check_status(dnnl_primitive_attr_set_post_ops(attributes, post_ops), "set post-ops");
  }

  dnnl_primitive_desc_t description = nullptr;
  const dnnl_status_t status =
      dnnl_primitive_desc_create(&description, &matmul, attributes, engine, nullptr);
  if (status != dnnl_unimplemented) check_status(status, "find a matmul");
  return {description, &dnnl_primitive_desc_destroy};
}

dnnl_memory_t make_memory(const dnnl_memory_desc_t& description, dnnl_engine_t engine) {
  dnnl_memory_t memory = nullptr;
  check_status(dnnl_memory_create(&memory, &description, engine, DNNL_MEMORY_NONE),
               "make a memory object");
  return memory;
}

// oneDNN threads with OpenMP; the setting belongs to the calling thread.
void use_one_thread() { omp_set_num_threads(1); }

}  // namespace

std::size_t GemmSpecHash::operator()(const GemmSpec& spec) const {
  std::uint64_t hash = 0;
  const auto mix = [&](std::int64_t value) {
    hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 32;
  };
  for (const std::int64_t size :
       {spec.m, spec.n, spec.k, spec.a_stride, spec.b_stride, spec.c_stride}) {
    mix(size);
  }
  mix(static_cast<int>(spec.a_layout) | static_cast<int>(spec.b_layout) << 1 |
      static_cast<int>(spec.operands) << 2 | static_cast<int>(spec.result) << 3 |
      static_cast<int>(spec.into) << 4 | static_cast<int>(spec.bias) << 5);
  return hash;
}

Gemm::Gemm(dnnl_engine_t engine, const GemmSpec& spec, int worker_slots)
    : arguments_(spec.bias == Bias::per_column ? kArguments : kArguments - 1) {
  use_one_thread();
  PrimitiveDescription description = describe_primitive(engine, spec, dnnl_scratchpad_mode_user);
  const auto scratchpad_of = [](const PrimitiveDescription& of) {
    return dnnl_primitive_desc_query_md(of.get(), dnnl_query_scratchpad_md, 0);
  };
  if (description && dnnl_memory_desc_get_size(scratchpad_of(description)) >
                         static_cast<std::size_t>(kGemmScratchpadBytes)) {
    description = describe_primitive(engine, spec, dnnl_scratchpad_mode_library);
  }
  if (!description) {
    throw_error<Error>("{} has no matmul {}x{}x{} on {}; use --matmul-dtype f32",
                       library_description(), spec.m, spec.n, spec.k, name_of(spec.operands));
  }
  dnnl_primitive_t primitive = nullptr;
  check_status(dnnl_primitive_create(&primitive, description.get()), "compile a matmul");
  primitive_.reset(primitive);

  const Descriptions operands = describe(spec);
  const dnnl_memory_desc_t scratchpad = *scratchpad_of(description);
  workers_.resize(static_cast<std::size_t>(worker_slots));
  for (Worker& worker : workers_) {
    dnnl_stream_t stream = nullptr;
    check_status(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "make a stream");
    worker.stream.reset(stream);
    const dnnl_memory_desc_t* descriptions[] = {&operands.a, &operands.b, &operands.c, &scratchpad,
                                                &operands.bias};
    for (int i = 0; i < arguments_; ++i) {
      worker.memory[static_cast<std::size_t>(i)].reset(make_memory(*descriptions[i], engine));
    }
  }
}

void Gemm::run(int worker, void* c, const void* a, const void* b, const void* bias,
               void* scratchpad) const {
  static constexpr int kNames[kArguments] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST,
                                             DNNL_ARG_SCRATCHPAD, DNNL_ARG_BIAS};
  void* const data[kArguments] = {const_cast<void*>(a), const_cast<void*>(b), c, scratchpad,
                                  const_cast<void*>(bias)};
  use_one_thread();
  const Worker& own = workers_[static_cast<std::size_t>(worker)];
  dnnl_exec_arg_t arguments[kArguments];
  for (int i = 0; i < arguments_; ++i) {
    const dnnl_memory_t memory = own.memory[static_cast<std::size_t>(i)].get();
    check_status(dnnl_memory_set_data_handle_v2(memory, data[i], own.stream.get()),
                 "set a memory object");
    arguments[i] = {kNames[i], memory};
  }
  check_status(dnnl_primitive_execute(primitive_.get(), own.stream.get(), arguments_, arguments),
               "run a matmul");
}

GemmCache::~GemmCache() {
  gemms_.clear();
  if (engine_ != nullptr) dnnl_engine_destroy(engine_);
}

dnnl_engine_t GemmCache::engine() {
  if (engine_ == nullptr) check_status(dnnl_engine_create(&engine_, dnnl_cpu, 0), "start");
  return engine_;
}

const Gemm& GemmCache::get(const GemmSpec& spec) {
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = gemms_.find(spec); found != gemms_.end()) return *found->second;
  }
  const std::unique_lock lock(mutex_);
  if (const auto found = gemms_.find(spec); found != gemms_.end()) return *found->second;
  return *gemms_.emplace(spec, std::make_unique<Gemm>(engine(), spec, worker_slots_)).first->second;
}

bool GemmCache::multiplies_bf16() {
  const std::unique_lock lock(mutex_);
  if (!multiplies_bf16_.has_value()) {
    const GemmSpec spec = {.m = 16,
                           .n = 16,
                           .k = 16,
                           .a_stride = 16,
                           .b_stride = 16,
                           .c_stride = 16,
                           .operands = Dtype::bf16};
    multiplies_bf16_ = describe_primitive(engine(), spec, dnnl_scratchpad_mode_user) != nullptr;
  }
  return *multiplies_bf16_;
}

void limit_library_isa(Isa isa) {
  if (isa == Isa::avx512) return;  // the library's own choice, which ONEDNN_MAX_CPU_ISA may limit
  const dnnl_cpu_isa_t limit =
      isa == Isa::avx2 ? dnnl_cpu_isa_avx2 : dnnl_cpu_isa_sse41;  // its lowest
  if (dnnl_set_max_cpu_isa(limit) == dnnl_success) return;
  const auto used = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
  if ((used & ~static_cast<unsigned>(limit)) != 0) {
    throw_error<ConfigError>(
        "--isa {}: {} is in use in this process and cannot be limited any more; start with this "
        "option, or set ONEDNN_MAX_CPU_ISA",
        name_of(isa), library_description());
  }
}

std::string library_description() {
  static constexpr struct {
    dnnl_cpu_isa_t isa;
    const char* name;
  } kNames[] = {{dnnl_cpu_isa_sse41, "sse41"},
                {dnnl_cpu_isa_avx, "avx"},
                {dnnl_cpu_isa_avx2, "avx2"},
                {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
                {dnnl_cpu_isa_avx512_core, "avx512_core"},
                {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"}};
  const char* name = "an instruction set without a name";
  for (const auto& entry : kNames) {
    if (entry.isa == dnnl_get_effective_cpu_isa()) name = entry.name;
  }
  const dnnl_version_t* version = dnnl_version();
  return fmt::format("oneDNN {}.{}.{}, {}", version->major, version->minor, version->patch, name);
}

}  // namespace strata::ops::cpu
