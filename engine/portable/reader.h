// PortableReader: the tensors of a portable checkpoint, every range verified as it is read.
//
// Opening one reads strata.json, checks the headers and sizes of all files against it, and that
// tensors are where both say they are. Throws FormatError, IoError, and ConfigError for a folder
// that is no portable checkpoint; all name folder or file.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/portable/files.h"
#include "engine/portable/index.h"
#include "engine/portable/layout.h"

namespace strata::engine {

// Whether the folder says that it is one.
bool is_portable_checkpoint(const std::string& folder);

class PortableReader {
 public:
  explicit PortableReader(std::string folder);

  const std::string& folder() const { return folder_; }
  const PortableIndex& index() const { return index_; }
  const std::map<std::string, PortableTensor>& tensors() const { return tensors_; }
  const PortableTensor* find(const std::string& name) const;

  // Elements [first, last), in the tensor's type. Reads and verifies all ranges that these are in.
  // Throws IoError naming tensor, range and file for what is not as it was written.
  void read(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
            std::span<std::byte> elements);

  // What is wrong with the range that ends at ranges[index] of the tensor; nothing: it is intact.
  std::optional<std::string> damage(const PortableTensor& tensor, std::size_t index);

 private:
  const std::vector<PortableRange>& ranges_of(const PortableTensor& tensor) const;
  // Reads a range into buffer_.
  std::optional<std::string> read_range(const PortableTensor& tensor, std::size_t index);
  void read_header(int file);

  std::string folder_;
  PortableIndex index_;
  std::optional<PortableFiles> files_;
  std::map<std::string, PortableTensor> tensors_;
  std::vector<std::byte> buffer_;
};

}  // namespace strata::engine
