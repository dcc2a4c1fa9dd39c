#include "engine/tools/doctor_software.h"

#include <fmt/format.h>
#include <stdio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string_view>
#include <thread>

#include "kernels/device/cuda_backend.h"
#include "offload/comm/communicator.h"

namespace strata::engine {
namespace {

namespace fs = std::filesystem;

int count_gpus() {
  int count = 0;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev", ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("nvidia") &&
        name.find_first_not_of("0123456789", 6) == std::string::npos && name.size() > 6) {
      ++count;
    }
  }
  return count;
}

// Empty when it cannot be run.
std::string first_line_of(const std::string& command) {
  struct Close {
    void operator()(FILE* pipe) const { ::pclose(pipe); }
  };
  const std::unique_ptr<FILE, Close> pipe(::popen(command.c_str(), "re"));
  if (pipe == nullptr) return "";
  std::array<char, 256> line{};
  if (::fgets(line.data(), line.size(), pipe.get()) == nullptr) return "";
  const std::string_view text(line.data());
  return std::string(text.substr(0, text.find('\n')));
}

std::string launch_advice() {
  const unsigned processors = std::max(1u, std::thread::hardware_concurrency());
  std::string advice = fmt::format(
      "several ranks: mpirun -n N strata train ...; OpenMPI wants --oversubscribe for more than "
      "{} here",
      processors);
  if (::geteuid() == 0) {
    advice += ", and as root OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1";
  }
  return advice;
}

}  // namespace

Finding examine_gpu() {
  const CudaSearch search = find_cuda_backend();
  if (search.backend) return {"gpu", Verdict::ok, "training runs on it (--device cuda)", ""};
  const int gpus = count_gpus();
  if (gpus == 0) return {"gpu", Verdict::ok, "none, and none is needed: " + search.reason, ""};
  return {"gpu", Verdict::note,
          fmt::format("{} device node{} (/dev/nvidia*), but {}", gpus, gpus == 1 ? "" : "s",
                      search.reason),
          "until then training runs on the processors (--device cpu)"};
}

Finding examine_mpi() {
  const char* const path = std::getenv("PATH");
  for (const char* name : {"mpirun", "mpiexec", "srun"}) {
    const std::string program = find_program(name, path == nullptr ? "" : path);
    if (program.empty()) continue;
    const std::string version = first_line_of("'" + program + "' --version 2>/dev/null");
    const std::string found = fmt::format("{}{}{}", program, version.empty() ? "" : ": ", version);
    if (!comm::has_mpi()) {
      return {"mpi", Verdict::note, found + "; this build has no MPI",
              "build with libopenmpi-dev installed to train on several ranks"};
    }
    return {"mpi", Verdict::ok, found, launch_advice()};
  }
  return {"mpi", Verdict::note, "no launcher (mpirun, srun) in PATH",
          "one rank works without; for several, install openmpi-bin"};
}

std::string find_program(const std::string& name, const std::string& path_list) {
  std::istringstream directories(path_list);
  for (std::string directory; std::getline(directories, directory, ':');) {
    const std::string program = directory + "/" + name;
    std::error_code ignored;
    if (fs::is_regular_file(program, ignored) && ::access(program.c_str(), X_OK) == 0) {
      return program;
    }
  }
  return "";
}

}  // namespace strata::engine
