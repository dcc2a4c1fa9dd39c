// A run that is recorded once, on drives that remember everything, and then crashes at every moment
// of its history: what it goes on from, and where it ends up.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/checkpoint/stored_run.h"
#include "tests/engine/checkpoint/crash_drives.h"
#include "tests/engine/checkpoint/crash_run.h"

namespace strata::engine::testing {

class CrashTest : public ::testing::TestWithParam<CrashCase> {
 protected:
  static constexpr std::uint64_t kSeeds = 3;  // of each crash

  CrashTest() {
    test::write_text(data_, 4000);
    expected_ = uninterrupted(test_, data_);
    record();
  }

  const io::DriveHistory& history() const { return disk_->history(); }
  std::int64_t events() const { return std::ssize(history().events()); }

  // Calls visit(events so far, images) for each moment at which a crash leaves something that it
  // did not leave before, and each seed.
  template <typename Visit>
  void for_each_crash(const Visit& visit) const {
    io::PowerLoss loss(history());
    for (std::int64_t at = ledger_->first_event(); at <= events(); ++at) {
      const auto& event = history().events()[static_cast<std::size_t>(at - 1)];
      const auto operation = history().operation(event.operation).operation;
      if (event.is_answer == (operation == io::Operation::write)) continue;
      loss.advance_to(at);
      for (std::uint64_t seed = 0; seed < kSeeds; ++seed) {
        SCOPED_TRACE(fmt::format("crash after event {} of {}, seed {}: {} acknowledged, {} wanted",
                                 at, events(), seed, ledger_->acknowledged_by(at),
                                 ledger_->wanted_by(at)));
        visit(at, loss.images(static_cast<std::uint64_t>(at) * kSeeds + seed));
        if (HasFailure()) return;
      }
    }
  }

  // Looks at every crash, and trains on from some.
  void crash_everywhere() {
    constexpr std::int64_t kTrainedOn = 12;
    const std::int64_t stride = (events() - ledger_->first_event()) / kTrainedOn;
    std::int64_t next = ledger_->first_event();
    std::set<std::int64_t> steps;  // gone on from
    for_each_crash([&](std::int64_t at, const std::vector<io::CrashDisk::Image>& images) {
      const Found found = look(images);
      ASSERT_EQ(found.refusal, "");
      const std::int64_t step = found.step.value_or(0);
      ASSERT_GE(step, ledger_->acknowledged_by(at));
      ASSERT_LE(step, ledger_->wanted_by(at));
      ASSERT_TRUE(found.is_expected) << "step " << step;
      steps.insert(step);
      if (at < next) return;
      next += stride;
      go_on(images, step);
    });
    std::set<std::int64_t> committed;
    for (std::int64_t step = 0; step <= kSteps; step += test_.commit_every) committed.insert(step);
    EXPECT_EQ(steps, committed);
  }

  // What a run would go on from, and whether all of it is the state that the run had then.
  struct Found {
    std::string refusal;
    std::optional<std::int64_t> step;  // nothing: none was committed
    bool is_expected = true;
  };
  Found look(const std::vector<io::CrashDisk::Image>& images) {
    files_.put(images);
    Found found;
    std::vector<Found> of_ranks(static_cast<std::size_t>(test_.ranks));
    found.refusal = failure_on_ranks(test_.ranks, [&](comm::Communicator& comm) {
      of_ranks[static_cast<std::size_t>(comm.rank())] = look(comm);
    });
    if (!found.refusal.empty()) return found;
    found.step = of_ranks.front().step;
    for (const Found& each : of_ranks) {
      EXPECT_EQ(each.step, found.step);
      found.is_expected = found.is_expected && each.is_expected;
    }
    return found;
  }

  // The run that is left, trained to its end: it has to be as if nothing had happened.
  void go_on(const std::vector<io::CrashDisk::Image>& images, std::int64_t from) {
    const test::TemporaryFolder folder;
    CrashFiles files(layout_, folder.path());
    files.put(images);
    const Options options = options_of(test_, data_, folder.path());
    EXPECT_EQ(failure_on_ranks(test_.ranks,
                               [&](comm::Communicator& comm) {
                                 TrainingRank rank(test_, options, comm);
                                 EXPECT_EQ(rank.steps_done(), from);
                                 train(rank, comm, kSteps);
                               }),
              "");
  }

 private:
  void record() {
    // So slow that state is still being written when a commit could have been.
    const io::CrashRules slow{.crash_at = -1,
                              .faults = {.delay_us_max = 50, .write_us_per_page = 1000}};
    disk_ = std::make_unique<io::CrashDisk>(layout_.blank(), slow);
    ledger_ = std::make_unique<CommitLedger>(*disk_);
    auto drives = disk_->open();
    const std::string failure = failure_on_ranks(test_.ranks, [&](comm::Communicator& comm) {
      const RunSetup& setup = setups_[static_cast<std::size_t>(comm.rank())];
      TrainingRank rank(
          test_, options_, comm, ledger_.get(),
          [&](const io::EngineChoice&, Tracer*) { return layout_.new_store(setup, drives); });
      ledger_->acknowledged(0);
      train(rank, comm, test_.stopped_after);
    });
    EXPECT_EQ(failure, "");
  }

  void train(TrainingRank& rank, comm::Communicator& comm, std::int64_t last_step) {
    while (rank.steps_done() < last_step) {
      const std::uint64_t loss = rank.step();
      EXPECT_EQ(loss, expected_.losses[static_cast<std::size_t>(rank.steps_done() - 1)])
          << "step " << rank.steps_done();
      rank.commit_if_due();
    }
    rank.finish();
    EXPECT_TRUE(rank.state() == expected_.states[static_cast<std::size_t>(last_step)]
                                                [static_cast<std::size_t>(comm.rank())]);
  }

  // As DurableRun and a trainer with its filler.
  Found look(comm::Communicator& comm) {
    const RunSetup& setup = setups_[static_cast<std::size_t>(comm.rank())];
    const std::vector<std::string> drives = layout_.drives(folder_.path());
    Found found;
    StoredRun stored(layout_.pointer(folder_.path()), {drives, {}, std::nullopt}, comm);
    if (!stored.commit()) return found;
    found.step = stored.commit()->step;
    EXPECT_EQ(stored.commit()->snapshot.schedule_step, found.step);
    EXPECT_TRUE(stored.fits(manifest_of(setup), drives));
    const auto volume = stored.take_volume();
    FailureLatch failure;
    WorkerSet workers(1);
    Budget host("host memory", 32 * kMiB);
    CpuDevice device({8 * kMiB, -1}, host, workers, failure, nullptr);
    const AlignedBuffer staging(host, "staging", setup.plan.checkpoint_staging_bytes());
    const AlignedBuffer scratch(host, "scratch", 4 * setup.plan.largest_block_bytes());
    offload::StateStore state(setup.plan, device, volume.get(), workers);
    StateAccess access(state, device, scratch.span());
    stored.filler(workers)->fill(state, access, staging.span());
    found.is_expected =
        read_state(state, device) ==
        expected_
            .states[static_cast<std::size_t>(*found.step)][static_cast<std::size_t>(comm.rank())];
    return found;
  }

  const CrashCase test_ = GetParam();
  test::TemporaryFolder folder_;
  const std::string data_ = folder_.path("text.txt");
  const Options options_ = options_of(test_, data_, folder_.path());
  const std::vector<RunSetup> setups_ = setups_of(test_, options_);  // by rank
  const StoreLayout layout_{test_, setups_.front()};
  CrashFiles files_{layout_, folder_.path()};
  Trajectory expected_;
  std::unique_ptr<io::CrashDisk> disk_;

 protected:
  std::unique_ptr<CommitLedger> ledger_;
};

}  // namespace strata::engine::testing
