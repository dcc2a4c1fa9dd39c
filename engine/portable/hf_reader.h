// HfReader: the weights of a Hugging Face model folder, open, and ranges of parameters out of
// them: model.safetensors, or the shards that model.safetensors.index.json names.
//
// Tensors are F32, F16 or BF16, widened exactly; Hugging Face's orientation becomes ours
// (hf_tensors.h). Their names may lack the prefix; constants of attention and positions are
// ignored. Where the head is tied, it may be stored alone; beside the token table that it has to
// be, it can be compared with it.
//
// Thread contract: one thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/portable/files.h"
#include "engine/portable/parameters.h"

namespace strata::engine {

class HfReader {
 public:
  // Throws ConfigError naming all tensors that are missing, extra, misshapen or of a type that is
  // not read, or what the folder has instead of such files; FormatError for a damaged file. Values
  // are not looked at.
  HfReader(std::string folder, const std::vector<PortableParameter>& parameters);

  const std::string& folder() const { return folder_; }
  std::string description() const;  // "model.safetensors, f32"

  // Elements [first, last) of a parameter in our order. Throw IoError.
  void read(const PortableParameter& parameter, std::int64_t first, std::span<float> values);
  // Whether there is a stored head though it is tied; it has the shape of the token table.
  bool has_tied_head() const { return tied_head_.has_value(); }
  void read_tied_head(std::int64_t first, std::span<float> values);

  // Where an element of ours is in the file: "'transformer.wte.weight' [3, 5]".
  std::string place_of(const PortableParameter& parameter, std::int64_t element) const;

 private:
  using FileOfTensor = std::map<std::string, std::string>;

  void open(const FileOfTensor& files, const std::vector<std::string>& names);
  void add_tensors(int file, const FileOfTensor& files);
  void find_token_table(const std::vector<PortableParameter>& parameters);
  void match(const std::vector<PortableParameter>& parameters);
  void take(const std::string& parameter, std::int64_t rows, std::int64_t columns);
  void take_tied_head();
  void read(const PortableTensor& tensor, std::int64_t first, std::span<float> values);

  std::string folder_;
  std::optional<PortableFiles> files_;
  std::vector<std::string> names_;                 // of the files
  std::map<std::string, PortableTensor> found_;    // by name without prefix; emptied by match()
  std::map<std::string, PortableTensor> tensors_;  // by parameter
  std::optional<PortableTensor> tied_head_;
  std::vector<std::string> problems_;
  std::vector<std::byte> buffer_;
};

}  // namespace strata::engine
