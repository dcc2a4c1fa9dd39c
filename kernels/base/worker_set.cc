#include "kernels/base/worker_set.h"

#include <sched.h>
#include <tbb/global_control.h>
#include <tbb/task_arena.h>
#include <tbb/task_group.h>
#include <tbb/task_scheduler_observer.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

#include "kernels/base/error.h"

namespace strata {
namespace {

// Binds each worker to one processor while it works in the arena. Callers are other people's
// threads and stay where they are.
class WorkerBinding : public tbb::task_scheduler_observer {
 public:
  WorkerBinding(tbb::task_arena& arena, std::vector<int> cpus)
      : tbb::task_scheduler_observer(arena), cpus_(std::move(cpus)) {
    ::sched_getaffinity(0, sizeof(unbound_), &unbound_);
    observe(true);
  }
  ~WorkerBinding() override { observe(false); }

  void on_scheduler_entry(bool is_worker) override {
    if (!is_worker) return;
    const auto slot = static_cast<std::size_t>(tbb::this_task_arena::current_thread_index());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(static_cast<std::size_t>(cpus_[slot % cpus_.size()]), &one);
    ::sched_setaffinity(0, sizeof(one), &one);  // best effort: unbound works too
  }
  void on_scheduler_exit(bool is_worker) override {
    if (is_worker) ::sched_setaffinity(0, sizeof(unbound_), &unbound_);
  }

 private:
  std::vector<int> cpus_;
  cpu_set_t unbound_;
};

// Callers of a set of one thread take turns in order of arrival. (A plain mutex lets the thread
// that calls most often keep the others out.)
class TurnLock {
 public:
  void lock() {
    std::unique_lock lock(mutex_);
    const std::uint64_t turn = next_turn_++;
    changed_.wait(lock, [&] { return serving_ == turn; });
  }
  void unlock() {
    {
      const std::lock_guard lock(mutex_);
      ++serving_;
    }
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_turn_ = 0;
  std::uint64_t serving_ = 0;
};

// The arena of a set of several threads.
class Pool {
 public:
  Pool(int threads, std::vector<int> cpus) : arena_(threads, /*reserved_for_masters=*/1) {
    // More threads than processors must be asked for. Fewer need not be: the arena's size bounds
    // them, and a lower process-wide limit would slow down other sets.
    constexpr auto kLimit = tbb::global_control::max_allowed_parallelism;
    const auto wanted = static_cast<std::size_t>(threads);
    if (tbb::global_control::active_value(kLimit) < wanted) raised_limit_.emplace(kLimit, wanted);
    arena_.initialize();
    if (!cpus.empty()) binding_.emplace(arena_, std::move(cpus));
  }

  int slots() const { return arena_.max_concurrency(); }

  // Runs work(slot) on up to `threads` threads at once and returns when all have returned. No two
  // threads are in one slot of the arena at a time. Where callers outnumber the free slots, the
  // arena runs a caller's work on another thread while it waits.
  template <typename Work>
  void run(std::int64_t threads, const Work& work) {
    const auto here = [&] { work(tbb::this_task_arena::current_thread_index()); };
    arena_.execute([&] {
      if (threads <= 1) return here();
      // Isolated: a caller that waits for its last tiles does not start on another caller's.
      tbb::this_task_arena::isolate([&] {
        tbb::task_group group;
        for (std::int64_t i = 1; i < threads; ++i) group.run(here);
        group.run_and_wait(here);
      });
    });
  }

 private:
  std::optional<tbb::global_control> raised_limit_;
  tbb::task_arena arena_;
  std::optional<WorkerBinding> binding_;
};

// One parallel_for, on its caller's stack. Each thread that takes part draws tiles until none is
// left.
template <typename TileFunction>
struct Job {
  void work(int worker) {
    try {
      for (std::int64_t tile; (tile = next.fetch_add(1, std::memory_order_relaxed)) < tiles;) {
        function(body, tile, worker);
      }
    } catch (...) {
      next.store(tiles, std::memory_order_relaxed);  // nobody starts another tile
      throw;
    }
  }

  std::int64_t tiles;
  TileFunction function;
  const void* body;
  std::atomic<std::int64_t> next{0};
};

}  // namespace

struct WorkerSet::Impl {
  std::optional<Pool> pool;  // of a set of several threads
  TurnLock turns;            // of a set of one
};

WorkerSet::WorkerSet(int threads, std::vector<int> cpus)
    : threads_(threads), impl_(std::make_unique<Impl>()) {
  STRATA_CHECK(threads >= 1, "a worker set of {} threads", threads);
  if (threads > 1) impl_->pool.emplace(threads, std::move(cpus));
}

WorkerSet::~WorkerSet() = default;

int WorkerSet::worker_slots() const { return impl_->pool ? impl_->pool->slots() : 1; }

void WorkerSet::run(std::int64_t tiles, TileFunction function, const void* body) {
  Job<TileFunction> job{tiles, function, body};
  if (impl_->pool) {
    impl_->pool->run(std::min<std::int64_t>(threads_, tiles), [&](int slot) { job.work(slot); });
  } else {
    const std::lock_guard turn(impl_->turns);
    job.work(0);
  }
}

}  // namespace strata
