#include "engine/portable/publish.h"

#include <algorithm>
#include <span>

#include "engine/portable/copy.h"
#include "engine/portable/steps.h"
#include "io/plain_file.h"
#include "kernels/base/error.h"

namespace strata::engine {

namespace {

PortableIndex make_index(const PortableLayout& layout, const PortableOrigin& origin,
                         const std::vector<std::vector<std::uint64_t>>& checksums) {
  PortableIndex index;
  index.origin = origin;
  index.content = layout.format().content;
  if (index.content == PortableContent::weights) {
    index.origin.options = index.origin.arithmetic = nullptr;
    index.origin.run = run_mark(origin.run);
  }
  index.moments = layout.dtypes().moments;
  index.moment_count = layout.dtypes().moment_count;
  for (const PortableFile& file : layout.files()) {
    const auto header = std::as_bytes(std::span(file.header));
    index.files.push_back({file.name, file.bytes, std::ssize(header),
                           portable_checksum(header.data(), std::ssize(header))});
  }
  for (const PortableTensor& tensor : layout.tensors()) {
    index.tensors[tensor.name] = {tensor.rows, tensor.columns, tensor.transposed, {}};
  }
  for (std::size_t rank = 0; rank < checksums.size(); ++rank) {
    std::size_t next = 0;
    for_each_range(
        layout, static_cast<int>(rank), [&](int tensor, std::int64_t /*first*/, std::int64_t last) {
          const std::string& name = layout.tensors()[static_cast<std::size_t>(tensor)].name;
          index.tensors[name].ranges.push_back({last, checksums[rank].at(next++)});
        });
    STRATA_CHECK(next == checksums[rank].size());
  }
  for (auto& [name, tensor] : index.tensors) {
    std::ranges::sort(tensor.ranges, {}, &PortableRange::last);
  }
  return index;
}

}  // namespace

std::vector<std::string> file_names(const PortableLayout& layout) {
  std::vector<std::string> names;
  for (const PortableFile& file : layout.files()) names.push_back(file.name);
  return names;
}

void publish_portable(PortableFolder& folder, const PortableLayout& layout,
                      const PortableOrigin& origin, const ModelFiles& model_files,
                      const std::vector<std::vector<std::uint64_t>>& checksums,
                      ExistingFolder existing) {
  const auto write = [&](const std::string& name, const std::string& contents) {
    io::replace_file(folder.temporary_path() + "/" + name, contents);
  };
  for (const auto& [name, contents] : model_files) write(name, contents);
  const std::string model_index = layout.model_index();
  if (!model_index.empty()) write("model.safetensors.index.json", model_index);
  write(kPortableIndexFile, encode(make_index(layout, origin, checksums)));
  folder.publish(existing);
}

}  // namespace strata::engine
