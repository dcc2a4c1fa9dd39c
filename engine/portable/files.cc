#include "engine/portable/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

PortableFiles::PortableFiles(const std::string& folder, const std::vector<std::string>& names,
                             Access access) {
  for (const std::string& name : names) {
    paths_.push_back(folder + "/" + name);
    const char* const path = paths_.back().c_str();
    files_.push_back(access == Access::read
                         ? io::open_plain_file(path)
                         : io::FileDescriptor(::open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666)));
    if (!files_.back().is_open()) {
      throw_error<IoError>("open {}: {}", paths_.back(), std::strerror(errno));
    }
  }
}

std::int64_t PortableFiles::bytes(int file) const {
  struct stat status {};
  if (::fstat(files_[static_cast<std::size_t>(file)].get(), &status) != 0) {
    throw_error<IoError>("look at {}: {}", path(file), std::strerror(errno));
  }
  return status.st_size;
}

void PortableFiles::write_header(int file, const PortableFile& contents) {
  const int descriptor = files_[static_cast<std::size_t>(file)].get();
  // Where the file system cannot reserve space, a full disk shows while the file is written.
  const bool reserved = ::fallocate(descriptor, 0, 0, contents.bytes) == 0;
  if (!reserved && errno != EOPNOTSUPP && errno != ENOSYS) {
    throw_error<IoError>("reserve {} bytes for {}: {}", contents.bytes, path(file),
                         std::strerror(errno));
  }
  if (!reserved && ::ftruncate(descriptor, contents.bytes) != 0) {
    throw_error<IoError>("make {} {} bytes long: {}", path(file), contents.bytes,
                         std::strerror(errno));
  }
  pwrite(file, 0, std::as_bytes(std::span(contents.header)));
}

std::vector<std::byte> PortableFiles::read_bytes(int file, std::int64_t offset,
                                                 std::int64_t bytes) const {
  std::vector<std::byte> out(static_cast<std::size_t>(bytes));
  pread(file, offset, out);
  return out;
}

template <typename TransferRun>
void PortableFiles::for_each_run(const PortableTensor& tensor, std::int64_t first,
                                 std::int64_t last, TransferRun transfer) {
  const std::int64_t bytes = element_bytes(tensor);
  const std::int64_t columns = tensor.columns;
  for (std::int64_t column = 0; column < columns; ++column) {
    // The first row at or behind `first`, and the first at or behind `last`.
    const auto row_from = [&](std::int64_t element) {
      return element / columns + (column < element % columns ? 1 : 0);
    };
    const std::int64_t row = row_from(first);
    const std::int64_t rows = row_from(last) - row;
    if (rows == 0) continue;
    run_.resize(static_cast<std::size_t>(rows * bytes));
    transfer(tensor.offset_bytes + (column * tensor.rows + row) * bytes,
             row * columns + column - first);
  }
}

void PortableFiles::write(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
                          std::span<const std::byte> elements) {
  const std::int64_t bytes = element_bytes(tensor);
  STRATA_CHECK(std::ssize(elements) == (last - first) * bytes);
  if (!tensor.transposed) {
    pwrite(tensor.file, tensor.offset_bytes + first * bytes, elements);
    return;
  }
  const auto element_size = static_cast<std::size_t>(bytes);
  for_each_run(tensor, first, last, [&](std::int64_t offset, std::int64_t element) {
    const std::byte* from = elements.data() + element * bytes;
    for (std::size_t i = 0; i < run_.size(); i += element_size, from += tensor.columns * bytes) {
      std::memcpy(run_.data() + i, from, element_size);
    }
    pwrite(tensor.file, offset, run_);
  });
}

void PortableFiles::read(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
                         std::span<std::byte> elements) {
  const std::int64_t bytes = element_bytes(tensor);
  STRATA_CHECK(std::ssize(elements) == (last - first) * bytes);
  if (!tensor.transposed) {
    pread(tensor.file, tensor.offset_bytes + first * bytes, elements);
    return;
  }
  const auto element_size = static_cast<std::size_t>(bytes);
  for_each_run(tensor, first, last, [&](std::int64_t offset, std::int64_t element) {
    pread(tensor.file, offset, run_);
    std::byte* to = elements.data() + element * bytes;
    for (std::size_t i = 0; i < run_.size(); i += element_size, to += tensor.columns * bytes) {
      std::memcpy(to, run_.data() + i, element_size);
    }
  });
}

void PortableFiles::sync() {
  for (std::size_t f = 0; f < files_.size(); ++f) {
    if (::fsync(files_[f].get()) != 0) {
      throw_error<IoError>("flush {}: {}", paths_[f], std::strerror(errno));
    }
  }
}

void PortableFiles::pwrite(int file, std::int64_t offset, std::span<const std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pwrite(files_[static_cast<std::size_t>(file)].get(), bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      throw_error<IoError>("write {} bytes at offset {} of {}: {}", bytes.size(), offset,
                           path(file), std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += done;
  }
}

void PortableFiles::pread(int file, std::int64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const ssize_t done =
        ::pread(files_[static_cast<std::size_t>(file)].get(), bytes.data(), bytes.size(), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) {
      throw_error<IoError>("read {} bytes at offset {} of {}: {}", bytes.size(), offset, path(file),
                           done == 0 ? "the file ends there" : std::strerror(errno));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(done));
    offset += done;
  }
}

}  // namespace strata::engine
