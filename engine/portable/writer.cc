#include "engine/portable/writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <span>
#include <thread>
#include <utility>

#include "engine/portable/files.h"
#include "engine/portable/publish.h"
#include "io/plain_file.h"
#include "kernels/base/bytes.h"
#include "kernels/base/error.h"
#include "kernels/base/system_file.h"

namespace strata::engine {

namespace fs = std::filesystem;

namespace {

std::size_t count_ranges(const PortableLayout& layout, int rank) {
  std::size_t count = 0;
  for_each_range(layout, rank, [&](int, std::int64_t, std::int64_t) { ++count; });
  return count;
}

// Long enough to cost nothing, and short beside any --comm-timeout.
constexpr std::chrono::milliseconds kBusyPoll{500};

bool is_any_rank(comm::Communicator& comm, bool mine) {
  const auto own = static_cast<std::byte>(mine);
  std::vector<std::byte> all(static_cast<std::size_t>(comm.world_size()));
  comm.all_gather_host(std::span(&own, 1), all);
  return std::ranges::find(all, std::byte{1}) != all.end();
}

}  // namespace

PortableWriter::PortableWriter(PortableLayout layout, PortableWriterOptions options,
                               AlignedSpan memory)
    : layout_(std::move(layout)),
      options_(std::move(options)),
      memory_(memory),
      thread_("portable copy", never_failed_, 1) {
  if (options_.rank == 0) remove_partial_folders(options_.folders.directory);
}

PortableWriter::~PortableWriter() { stop_ = true; }

template <typename Work>
void PortableWriter::run(const char* outcome, Work work) {
  try {
    work();
  } catch (const std::exception& error) {
    failure_ = fmt::format("{} was {}: {}", folder_path_, outcome, error.what());
  }
}

std::uint64_t PortableWriter::make_folder(const std::string& name) {
  STRATA_CHECK(idle() && options_.rank == 0);
  folder_path_ = options_.folders.directory + "/" + name;
  run("not written", [this] { folder_.emplace(folder_path_); });
  return folder_ ? folder_->number() : 0;
}

void PortableWriter::begin(const std::string& name, std::uint64_t number, PortableOrigin origin,
                           const store::BlockReader& blocks, const store::CommitTable& table) {
  STRATA_CHECK(idle());
  folder_path_ = options_.folders.directory + "/" + name;
  number_ = number;
  origin_ = std::move(origin);
  source_.emplace(CommitSource{blocks, table, options_.rank});
  state_ = number == 0 ? State::copied : State::copying;
  if (number != 0) thread_.post([this] { copy(); });
}

void PortableWriter::copy() {
  run("not written", [this] { copy_own_ranges(); });
  state_ = State::copied;
}

void PortableWriter::copy_own_ranges() {
  const std::string temporary = PortableFolder::temporary_path(folder_path_, number_);
  std::vector<std::uint64_t> checksums;
  {
    PortableFiles files(temporary, file_names(layout_), PortableFiles::Access::write);
    if (options_.rank == 0) {
      for (int file = 0; file < std::ssize(layout_.files()); ++file) {
        files.write_header(file, layout_.files()[static_cast<std::size_t>(file)]);
      }
    }
    copy_shard(layout_, *source_, files, memory_, stop_, checksums);
    files.sync();
  }
  const auto bytes = std::as_bytes(std::span(checksums));
  io::replace_file(checksums_path(options_.rank),
                   {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::string PortableWriter::checksums_path(int rank) const {
  return fmt::format("{}/.checksums-{:05}", PortableFolder::temporary_path(folder_path_, number_),
                     rank);
}

std::vector<std::vector<std::uint64_t>> PortableWriter::collect_checksums() const {
  std::vector<std::vector<std::uint64_t>> all;
  for (int rank = 0; rank < options_.world_size; ++rank) {
    const std::string path = checksums_path(rank);
    const std::optional<std::string> text = read_system_file(path);
    const std::size_t ranges = count_ranges(layout_, rank);
    if (!text || text->size() != ranges * sizeof(std::uint64_t)) {
      throw_error<IoError>(
          "rank {} did not copy its part; all ranks need to reach the folder and have room", rank);
    }
    const auto bytes = std::as_writable_bytes(std::span(all.emplace_back(ranges)));
    std::ranges::copy(std::as_bytes(std::span(*text)), bytes.begin());
    fs::remove(path);
  }
  return all;
}

void PortableWriter::publish() {
  run("not written", [this] {
    const bool is_own = is_of_run(folder_path_, origin_.run);
    publish_portable(*folder_, layout_, origin_, options_.model_files, collect_checksums(),
                     is_own ? ExistingFolder::replace : ExistingFolder::refuse);
  });
  if (failure_.empty() && options_.keep > 0) {
    run("written, but older ones remain",
        [this] { keep_newest_steps(options_.folders, options_.keep, origin_.run); });
  }
  state_ = State::published;
}

PortableReport PortableWriter::written() const {
  std::int64_t bytes = 0;
  for (const PortableFile& file : layout_.files()) bytes += file.bytes;
  return {PortableReport::Result::written,
          fmt::format("wrote {} ({})", folder_path_, format_bytes(bytes))};
}

std::optional<PortableReport> PortableWriter::advance() {
  STRATA_CHECK(!busy());
  if (state_ == State::copied) {
    const bool publishes = options_.rank == 0 && failure_.empty();
    state_ = publishes ? State::publishing : State::published;
    if (publishes) thread_.post([this] { publish(); });
  } else if (state_ == State::published) {
    state_ = State::idle;
    folder_.reset();
    if (!failure_.empty()) {
      return PortableReport{PortableReport::Result::failed, std::exchange(failure_, {})};
    }
    if (options_.rank == 0) return written();
  }
  return std::nullopt;
}

std::optional<PortableReport> PortableWriter::finish(comm::Communicator& comm) {
  std::optional<PortableReport> report;
  while (!idle()) {
    const auto until = std::chrono::steady_clock::now() + kBusyPoll;
    while (busy() && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    if (!is_any_rank(comm, busy())) report = advance();
  }
  return report;
}

}  // namespace strata::engine
