// Folders include only downward (docs/architecture.md), and by full path.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/style/source_tree.h"

namespace strata::style {
namespace {

std::set<std::string> with_below_engine(std::set<std::string> parts) {
  parts.insert({"models", "offload", "offload/comm", "offload/store", "optim_cpu", "optim_cuda",
                "io", "kernels/base", "kernels/device", "kernels/ops"});
  return parts;
}

// What the files of a folder may include, besides their own folder: folders, or single headers.
const std::map<std::string, std::set<std::string>> kMayInclude = {
    {"kernels/base", {}},
    {"kernels/device",  // and, on the simulated device, what stands in for CUDA
     {"kernels/base", "cuda_sim/fragment.h", "cuda_sim/kernel_code.h", "cuda_sim/launch.h"}},
    {"kernels/ops", {"kernels/base", "kernels/device"}},
    {"io", {"kernels/base"}},
    {"optim_cpu", {"kernels/base"}},
    {"optim_cuda", {"optim_cpu", "kernels/base", "kernels/device", "kernels/ops"}},
    {"models", {"kernels/base", "kernels/device", "kernels/ops"}},
    {"offload/comm", {"kernels/base", "kernels/device", "kernels/ops"}},
    {"offload/store", {"offload/plan.h", "offload/extent_map.h", "io", "kernels/base"}},
    {"offload", {"offload/comm", "offload/store", "io", "kernels/base", "kernels/device"}},
    {"engine/options", with_below_engine({})},
    {"engine/data", with_below_engine({"engine/options"})},
    {"engine/plan", with_below_engine({"engine/options", "engine/data"})},
    {"engine/cost", with_below_engine({"engine/options", "engine/data", "engine/plan"})},
    {"engine/step", with_below_engine({"engine/options", "engine/data", "engine/plan"})},
    {"engine/portable",
     with_below_engine({"engine/options", "engine/data", "engine/plan", "engine/step"})},
    {"engine/checkpoint", with_below_engine({"engine/options", "engine/data", "engine/plan",
                                             "engine/step", "engine/portable"})},
    {"engine/profile", with_below_engine({"engine/options"})},
    {"engine/tune",
     with_below_engine({"engine/options", "engine/data", "engine/plan", "engine/cost"})},
    {"engine/tools", with_below_engine({"engine/options", "engine/plan/model_source.h",
                                        "engine/portable", "engine/checkpoint"})},
    {"engine/infer", with_below_engine({"engine/options", "engine/data", "engine/plan",
                                        "engine/step", "engine/portable", "engine/checkpoint"})},
    {"engine/run",
     with_below_engine({"engine/options", "engine/data", "engine/plan", "engine/cost",
                        "engine/step", "engine/portable", "engine/checkpoint", "engine/profile",
                        "engine/tune", "engine/infer", "engine/tools"})},
    {"engine", with_below_engine({"engine/run"})},  // main.cc
};

const std::vector<std::string> kSourceFolders = {"engine",     "models",  "offload", "optim_cpu",
                                                 "optim_cuda", "kernels", "io"};

// The entry of the table that a path belongs to: its longest prefix; "" if there is none.
std::string folder_of(const std::string& path) {
  std::string best;
  for (const auto& [folder, allowed] : kMayInclude) {
    if (path.starts_with(folder + "/") && folder.size() > best.size()) best = folder;
  }
  return best;
}

TEST(IncludeDirection, FindsTheFolderOfAPath) {
  EXPECT_EQ(folder_of("offload/lease.h"), "offload");
  EXPECT_EQ(folder_of("offload/comm/communicator.h"), "offload/comm");
  EXPECT_EQ(folder_of("kernels/ops/cpu/isa/vector.h"), "kernels/ops");
  EXPECT_EQ(folder_of("kernels/loose.h"), "");
}

TEST(IncludeDirection, EveryFileIsInAKnownFolder) {
  const auto files = source_files(kSourceFolders);
  EXPECT_GT(files.size(), 50u);  // the tree was found
  for (const SourceFile& file : files) EXPECT_NE(folder_of(file.path), "") << file.path;
}

TEST(IncludeDirection, IncludesPointDownward) {
  for (const SourceFile& file : source_files(kSourceFolders)) {
    const std::string folder = folder_of(file.path);
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string include = quoted_include(file.lines[i]);
      if (include.empty()) continue;
      const std::string included = folder_of(include);
      const std::set<std::string>& may_include = kMayInclude.at(folder);
      const bool allowed =
          included == folder || may_include.contains(included) || may_include.contains(include);
      EXPECT_TRUE(allowed) << file.path << ":" << i + 1 << " must not include \"" << include
                           << "\"";
    }
  }
}

// The simulated CUDA device is included from its own folder's parent, which only its users see.
std::string root_of(const std::string& include) {
  return include.starts_with("cuda_sim/") ? "tests" : "";
}

TEST(IncludeDirection, IncludesAreByFullPath) {
  std::vector<std::string> folders = kSourceFolders;
  folders.push_back("tests");
  for (const SourceFile& file : source_files(folders)) {
    for (std::size_t i = 0; i < file.lines.size(); ++i) {
      const std::string include = quoted_include(file.lines[i]);
      if (include.empty()) continue;
      EXPECT_TRUE(std::filesystem::exists(source_root() / root_of(include) / include))
          << file.path << ":" << i + 1 << ": no \"" << include << "\" from the root of the tree";
    }
  }
}

}  // namespace
}  // namespace strata::style
