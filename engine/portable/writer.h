// PortableWriter: copies a durable commit to a portable checkpoint while training goes on, on every
// rank: rank 0 makes the folder, each rank's own thread copies the ranges of its shard, then rank 0
// adds the small files and gives the folder its name.
//
//   idle ──begin()──▶ copying ──▶ copied ──advance()──▶ publishing (rank 0) ──▶ published
//    ▲                                                                              │
//    └──────────────────────────── advance(): a report ◀────────────────────────────┘
//
// busy() while copying or publishing: until then the commit's slots have to stay as they are.
// advance() is called on every rank at the same place, when no rank is busy; so all ranks are idle
// together. A rank leaves its checksums as a file in the temporary folder, whose name only this
// copy has, by which rank 0 knows that it came to its end. What fails is reported and leaves
// nothing behind; training goes on.
//
// Thread contract: one thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/plan/model_source.h"
#include "engine/portable/copy.h"
#include "engine/portable/folder.h"
#include "engine/portable/index.h"
#include "engine/portable/layout.h"
#include "engine/portable/steps.h"
#include "kernels/base/failure_latch.h"
#include "kernels/base/task_thread.h"
#include "offload/comm/communicator.h"

namespace strata::engine {

struct PortableReport {
  enum class Result : std::uint8_t { written, failed };
  Result result = Result::written;
  std::string text;  // one line for people: what was written where, or what failed
};

struct PortableWriterOptions {
  int rank = 0;
  int world_size = 1;
  ModelFiles model_files;  // as publish_portable() takes them
  // Where the folders come to lie. What a killed run left there half made is removed.
  StepFolders folders;
  // Of those of the run how many are kept, a new one included; 0: all.
  std::int64_t keep = 0;
};

class PortableWriter {
 public:
  // `memory`: portable_copy_bytes(), as long as this lives.
  PortableWriter(PortableLayout layout, PortableWriterOptions options, AlignedSpan memory);
  ~PortableWriter();  // a copy under way is given up

  // Rank 0 makes the folder: only while idle. `name`: such as step_folder_name(). Returns its
  // number; 0 if it could not be made, which is what advance() then reports.
  std::uint64_t make_folder(const std::string& name);
  // On every rank, rank 0's number known: only while idle.
  void begin(const std::string& name, std::uint64_t number, PortableOrigin origin,
             const store::BlockReader& blocks, const store::CommitTable& table);
  bool idle() const { return state_ == State::idle; }
  bool busy() const { return state_ == State::copying || state_ == State::publishing; }

  // Rank 0 reports once a copy is at its end; another rank only its own failure.
  std::optional<PortableReport> advance();

  // Waits, however long it takes, for the end of the copy that was begun on all ranks; collective.
  std::optional<PortableReport> finish(comm::Communicator& comm);

 private:
  enum class State : std::uint8_t { idle, copying, copied, publishing, published };

  void copy();
  void copy_own_ranges();
  std::string checksums_path(int rank) const;
  void publish();
  PortableReport written() const;
  std::vector<std::vector<std::uint64_t>> collect_checksums() const;
  template <typename Work>
  void run(const char* outcome, Work work);  // of a failure, which is kept

  PortableLayout layout_;
  PortableWriterOptions options_;
  AlignedSpan memory_;

  // Of the copy that was begun; the thread's while busy.
  std::string folder_path_;
  std::uint64_t number_ = 0;  // of the folder
  PortableOrigin origin_;
  std::optional<CommitSource> source_;
  std::optional<PortableFolder> folder_;  // rank 0's
  std::string failure_;

  std::atomic<State> state_{State::idle};
  std::atomic<bool> stop_{false};
  FailureLatch never_failed_;
  TaskThread thread_;  // last: it ends before what it uses
};

}  // namespace strata::engine
