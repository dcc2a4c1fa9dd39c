// What makes copied tensors a portable checkpoint or a model folder: the small files beside them,
// strata.json last, and the name. By one process, when every rank's ranges are in the files and
// durable.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/plan/model_source.h"
#include "engine/portable/folder.h"
#include "engine/portable/index.h"
#include "engine/portable/layout.h"

namespace strata::engine {

// The names of its files, as PortableFiles opens them.
std::vector<std::string> file_names(const PortableLayout& layout);

// `checksums`: of each rank, as copy_shard() gave them. `model_files`: config.json and
// those of the tokenizer.
void publish_portable(PortableFolder& folder, const PortableLayout& layout,
                      const PortableOrigin& origin, const ModelFiles& model_files,
                      const std::vector<std::vector<std::uint64_t>>& checksums,
                      ExistingFolder existing);

}  // namespace strata::engine
