#include "engine/portable/reader.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <utility>

#include "kernels/base/error.h"
#include "models/safetensors.h"

namespace strata::engine {

namespace {

std::vector<std::int64_t> shape_in_file(const PortableIndexTensor& tensor) {
  return tensor.transposed ? std::vector{tensor.columns, tensor.rows}
                           : std::vector{tensor.rows, tensor.columns};
}

// Vectors have one dimension.
bool is_shape(const std::vector<std::int64_t>& shape, const PortableIndexTensor& tensor) {
  return shape == shape_in_file(tensor) ||
         (tensor.rows == 1 && shape == std::vector{tensor.columns});
}

}  // namespace

bool is_portable_checkpoint(const std::string& folder) {
  return std::filesystem::exists(folder + "/" + kPortableIndexFile);
}

PortableReader::PortableReader(std::string folder)
    : folder_(std::move(folder)), index_(read_portable_index(folder_)) {
  std::vector<std::string> names;
  for (const PortableIndexFile& file : index_.files) names.push_back(file.name);
  files_.emplace(folder_, names, PortableFiles::Access::read);
  for (int file = 0; file < static_cast<int>(names.size()); ++file) read_header(file);
  for (const auto& [name, tensor] : index_.tensors) {
    if (!tensors_.contains(name)) {
      throw_error<FormatError>("{}: no file has tensor '{}' of {}", folder_, name,
                               kPortableIndexFile);
    }
  }
}

void PortableReader::read_header(int file) {
  const PortableIndexFile& entry = index_.files[static_cast<std::size_t>(file)];
  const std::string& path = files_->path(file);
  if (const std::int64_t bytes = files_->bytes(file); bytes != entry.bytes) {
    throw_error<FormatError>("{} has {} bytes, not {}", path, bytes, entry.bytes);
  }
  if (entry.header_bytes < models::kSafetensorsLengthBytes || entry.header_bytes > entry.bytes) {
    throw_error<FormatError>("{}: a header of {} bytes in a file of {}", path, entry.header_bytes,
                             entry.bytes);
  }
  const std::vector<std::byte> header = files_->read_bytes(file, 0, entry.header_bytes);
  if (portable_checksum(header.data(), std::ssize(header)) != entry.header_checksum) {
    throw_error<FormatError>("{}: the header is damaged", path);
  }
  try {
    const std::string_view json(reinterpret_cast<const char*>(header.data()), header.size());
    for (const models::SafetensorsTensor& found :
         models::decode_safetensors(json.substr(models::kSafetensorsLengthBytes),
                                    entry.bytes - entry.header_bytes)
             .tensors) {
      const auto stored = index_.tensors.find(found.name);
      if (stored == index_.tensors.end() || !is_shape(found.shape, stored->second)) {
        throw_error<FormatError>("tensor '{}' is not as {} has it", found.name, kPortableIndexFile);
      }
      const PortableIndexTensor& known = stored->second;
      PortableTensor tensor{
          found.name,    found.dtype,      found.shape, known.rows,
          known.columns, known.transposed, file,        entry.header_bytes + found.offset_bytes};
      (void)element_bytes(tensor);  // a type that is not ours is refused here
      tensors_.emplace(found.name, std::move(tensor));
    }
  } catch (const FormatError& error) {
    throw_error<FormatError>("{}: {}", path, error.what());
  }
}

const PortableTensor* PortableReader::find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

const std::vector<PortableRange>& PortableReader::ranges_of(const PortableTensor& tensor) const {
  return index_.tensors.at(tensor.name).ranges;
}

std::optional<std::string> PortableReader::read_range(const PortableTensor& tensor,
                                                      std::size_t index) {
  const std::vector<PortableRange>& ranges = ranges_of(tensor);
  const std::int64_t first = index == 0 ? 0 : ranges[index - 1].last;
  const std::int64_t last = ranges[index].last;
  buffer_.resize(static_cast<std::size_t>((last - first) * element_bytes(tensor)));
  files_->read(tensor, first, last, buffer_);
  if (portable_checksum(buffer_.data(), std::ssize(buffer_)) == ranges[index].checksum) {
    return std::nullopt;
  }
  return fmt::format("elements [{}, {}) of tensor '{}' in {} are not those that were written",
                     first, last, tensor.name, files_->path(tensor.file));
}

std::optional<std::string> PortableReader::damage(const PortableTensor& tensor, std::size_t index) {
  try {
    return read_range(tensor, index);
  } catch (const IoError& error) {
    return error.what();
  }
}

void PortableReader::read(const PortableTensor& tensor, std::int64_t first, std::int64_t last,
                          std::span<std::byte> elements) {
  const std::int64_t bytes = element_bytes(tensor);
  STRATA_CHECK(std::ssize(elements) == (last - first) * bytes);
  const std::vector<PortableRange>& ranges = ranges_of(tensor);
  auto range = std::ranges::upper_bound(ranges, first, {}, &PortableRange::last);
  for (; first < last; ++range) {
    const auto index = static_cast<std::size_t>(range - ranges.begin());
    if (const auto damage = read_range(tensor, index)) {
      throw_error<IoError>("read {}: {}; resume from another portable checkpoint", folder_,
                           *damage);
    }
    const std::int64_t begin = index == 0 ? 0 : ranges[index - 1].last;
    const std::int64_t end = std::min(last, range->last);
    const auto size = static_cast<std::size_t>((end - first) * bytes);
    std::memcpy(elements.data(), buffer_.data() + (first - begin) * bytes, size);
    elements = elements.subspan(size);
    first = end;
  }
}

}  // namespace strata::engine
