// PortableLayout: the tensors of a portable checkpoint or an exported model, their files, and where
// each lies in its file. docs/checkpoints.md has the format. Pure.
//
// The model's files have Hugging Face's names and orientation; the optimizer's files our
// orientation, names of parameters with the state behind a dot, and larger types first, so that
// every tensor is aligned.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/portable/parameters.h"
#include "kernels/base/dtype.h"
#include "offload/store/manifest.h"

namespace strata::engine {

// scales: of moments in int8.
enum class PortableState : std::uint8_t { weight, master, moment1, moment2, scales1, scales2 };
inline constexpr std::array kPortableStates = {PortableState::weight,  PortableState::master,
                                               PortableState::moment1, PortableState::moment2,
                                               PortableState::scales1, PortableState::scales2};
constexpr bool is_scales(PortableState state) {
  return state == PortableState::scales1 || state == PortableState::scales2;
}

// Of a range of a block, the part of a state's tensor it is.
inline std::pair<std::int64_t, std::int64_t> elements_of(const BlockRange& range,
                                                         PortableState state) {
  if (is_scales(state)) return {range.first_scale, range.last_scale};
  return {range.first, range.last};
}
// Where it begins in the block's values of that state, in elements.
inline std::int64_t offset_of(const BlockRange& range, PortableState state) {
  return is_scales(state) ? range.offset_elements / kScaleElements : range.offset_elements;
}

enum class PortableContent : std::uint8_t { weights, training_state };

struct PortableFormat {
  PortableContent content = PortableContent::training_state;
  Dtype weights = Dtype::bf16;                  // of the model's files
  std::int64_t file_bytes_max = 5'000'000'000;  // of tensors; a larger tensor has its own file
};

// (rows, columns) in our order of elements; in its file (columns, rows) if transposed.
struct PortableTensor {
  std::string name;
  std::string dtype;  // as safetensors have it: F32, BF16, I8; F16 of others' models
  std::vector<std::int64_t> shape;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  bool transposed = false;
  int file = 0;
  std::int64_t offset_bytes = 0;  // in the file
  std::int64_t elements() const { return rows * columns; }
};

// Of the types above. Throws FormatError for others.
std::int64_t element_bytes(const PortableTensor& tensor);

struct PortableFile {
  std::string name;
  std::string header;
  std::int64_t bytes = 0;  // header included
};

inline constexpr std::string_view kModelFile = "model";
inline constexpr std::string_view kOptimizerFile = "optimizer";

// The name of a state of a parameter in the optimizer's files.
std::string optimizer_tensor_name(const std::string& parameter, PortableState state);
// Whether a training state has this one: there may be fewer moments, or no scales.
bool is_kept(PortableState state, const PortableParameter& parameter,
             const offload::StateDtypes& dtypes);
// Types of the states there.
const char* dtype_of(PortableState state, MomentFormat moments);

class PortableLayout {
 public:
  static constexpr int kNone = -1;

  PortableLayout(const store::Manifest& manifest, const PortableFormat& format);

  const PortableFormat& format() const { return format_; }
  const offload::StateDtypes& dtypes() const { return dtypes_; }
  const PortableParameters& parameters() const { return parameters_; }
  const std::vector<PortableTensor>& tensors() const { return tensors_; }
  const std::vector<PortableFile>& files() const { return files_; }

  // The tensor of a state of a parameter, or kNone.
  int tensor(int parameter, PortableState state) const {
    return indices_[static_cast<std::size_t>(parameter)][static_cast<std::size_t>(state)];
  }

  // model.safetensors.index.json; empty where one file has all.
  std::string model_index() const;

 private:
  void add(int parameter, PortableState state);
  void place(std::string_view file, std::size_t first_tensor);

  PortableFormat format_;
  offload::StateDtypes dtypes_;
  PortableParameters parameters_;
  std::vector<PortableTensor> tensors_;
  std::vector<std::array<int, kPortableStates.size()>> indices_;  // by parameter
  std::vector<PortableFile> files_;
  std::size_t model_files_ = 0;
};

}  // namespace strata::engine
