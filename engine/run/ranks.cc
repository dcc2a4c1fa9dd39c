#include "engine/run/ranks.h"

#include <cstdint>
#include <cstdio>
#include <span>
#include <string_view>
#include <vector>

#include "engine/options/option_list.h"
#include "engine/run/error_report.h"
#include "kernels/base/machine.h"
#include "kernels/device/cuda_backend.h"

namespace strata::engine {

namespace {

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3u;
  return hash;
}

std::unique_ptr<comm::Communicator> join_ranks(const Options& options, FailureLatch& failure) {
  if (!comm::launched_by_mpi()) return comm::make_single_rank_communicator();
  return comm::make_mpi_communicator({.timeout = comm_timeout(options)}, failure);
}

}  // namespace

std::chrono::milliseconds comm_timeout(const Options& options) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(options.comm_timeout * 1000));
}

std::vector<SharedSetting> shared_options(const Options& options) {
  std::vector<SharedSetting> settings;
  for (const OptionSpec& spec : option_list()) {
    if (!spec.of_a_rank) settings.push_back({"--" + spec.name, spec.get(options)});
  }
  return settings;
}

void require_same(comm::Communicator& comm, const std::vector<SharedSetting>& settings) {
  std::vector<std::uint64_t> mine;
  for (const SharedSetting& setting : settings) mine.push_back(fnv1a(setting.value));
  std::vector<std::uint64_t> all(settings.size() * static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(all)));
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t setting = i % settings.size();
    if (all[i] == all[setting]) continue;
    throw AgreedFailure(fmt::format("rank {} has another {} than rank 0; give all ranks the same",
                                    i / settings.size(), settings[setting].name),
                        kExitUsage);
  }
}

int run_on_ranks(const std::function<Options()>& read_options,
                 const std::function<int(const Options&, Ranks&)>& command) {
  std::string binding = undo_default_binding();
  set_cuda_environment();
  Options options;
  std::exception_ptr wrong;  // the other ranks are told, so that one of them speaks
  try {
    options = read_options();
  } catch (const ConfigError&) {
    wrong = std::current_exception();
  }
  FailureLatch failure;
  const auto comm = join_ranks(options, failure);
  Ranks ranks{*comm, failure, std::move(binding), {}};
  const auto run = [&] {
    raise_together(*comm, wrong);
    return command(options, ranks);
  };
  if (comm->world_size() == 1) return run();
  try {
    return run();
  } catch (const AgreedFailure& error) {
    if (comm->rank() == 0) print_error(error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    report(error, comm->rank());
    comm->abort(exit_code_of(error));
    return exit_code_of(error);
  }
}

}  // namespace strata::engine
