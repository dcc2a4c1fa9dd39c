// PortableFiles: the tensors' files of a portable checkpoint, open, and ranges of elements in and
// out of them, in our order of elements however the file has them.
//
// Several ranks may write to the same files at once, each its own ranges; the files are made by
// whoever comes first and given header and size by one of them. Through the page cache, on any file
// system. Throws IoError naming file, offset and bytes.
//
// Thread contract: one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/portable/layout.h"
#include "io/file_descriptor.h"

namespace strata::engine {

class PortableFiles {
 public:
  enum class Access : std::uint8_t { read, write };

  PortableFiles(const std::string& folder, const std::vector<std::string>& names, Access access);

  std::int64_t bytes(int file) const;
  const std::string& path(int file) const { return paths_[static_cast<std::size_t>(file)]; }

  // The file's header, and space for the rest of it.
  void write_header(int file, const PortableFile& contents);
  std::vector<std::byte> read_bytes(int file, std::int64_t offset, std::int64_t bytes) const;

  // `elements`: elements [first, last) of the tensor, in its type.
  void write(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
             std::span<const std::byte> elements);
  void read(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
            std::span<std::byte> elements);

  // Makes everything that was written durable.
  void sync();

 private:
  // For each column of a transposed tensor that [first, last) has elements of: calls
  // transfer(offset in the file, index of the first of them from `first` on), with run_ as long as
  // they are.
  template <typename TransferRun>
  void for_each_run(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
                    TransferRun transfer);

  void pwrite(int file, std::int64_t offset, std::span<const std::byte> bytes) const;
  void pread(int file, std::int64_t offset, std::span<std::byte> bytes) const;

  std::vector<std::string> paths_;
  std::vector<io::FileDescriptor> files_;
  std::vector<std::byte> run_;  // one column's rows
};

}  // namespace strata::engine
