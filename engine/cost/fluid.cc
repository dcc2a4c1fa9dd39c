#include "engine/cost/fluid.h"

#include <algorithm>
#include <deque>
#include <limits>

#include "kernels/base/error.h"

namespace strata::engine {

// One simulation.
class FluidRun {
 public:
  using Task = Fluid::Task;

  FluidRun(const Fluid& fluid, std::span<const Task> at)
      : fluid_(fluid),
        remaining_s_(fluid.demands_.size()),
        missing_(fluid.demands_.size()),
        busy_s_(fluid.servers_.size()),
        shared_(fluid.servers_.size()),
        queues_(fluid.servers_.size()),
        marked_(fluid.demands_.size(), -1),
        marks_(at.size()) {
    for (std::size_t m = 0; m < at.size(); ++m) marked_[index(at[m])] = static_cast<int>(m);
    link();
  }

  std::vector<Fluid::Mark> run() {
    for (Task task = 0; task < std::ssize(fluid_.demands_); ++task) {
      remaining_s_[index(task)] = fluid_.demands_[index(task)].seconds;
      if (fluid_.tasks_before(task).empty()) ready_.push_back(task);
    }
    begin_ready();
    while (serve()) begin_ready();
    STRATA_CHECK(done_ == fluid_.demands_.size());
    return std::move(marks_);
  }

 private:
  struct Served {
    Task task;
    double rate;
  };

  static std::size_t index(Task task) { return static_cast<std::size_t>(task); }

  // The tasks behind each, from the tasks before each.
  void link() {
    const std::size_t tasks = fluid_.demands_.size();
    behind_begin_.assign(tasks + 1, 0);
    for (const Task before : fluid_.before_) ++behind_begin_[index(before) + 1];
    for (std::size_t t = 0; t < tasks; ++t) behind_begin_[t + 1] += behind_begin_[t];
    behind_.resize(fluid_.before_.size());
    std::vector<std::size_t> next(behind_begin_.begin(), behind_begin_.end() - 1);
    for (Task task = 0; task < std::ssize(fluid_.demands_); ++task) {
      const auto before = fluid_.tasks_before(task);
      missing_[index(task)] = static_cast<int>(before.size());
      for (const Task each : before) behind_[next[index(each)]++] = task;
    }
  }

  // Hands ready tasks to their servers; those that ask for nothing are done, which may make others
  // ready.
  void begin_ready() {
    for (std::size_t next = 0; next < ready_.size(); ++next) {
      const Task task = ready_[next];
      const Fluid::Demand& demand = fluid_.demands_[index(task)];
      if (demand.seconds <= 0) {
        finish(task);
        continue;
      }
      const auto server = static_cast<std::size_t>(demand.server);
      if (fluid_.servers_[server].shared) {
        shared_[server].push_back(task);
      } else {
        queues_[server][static_cast<std::size_t>(demand.queue)].push_back(task);
      }
    }
    ready_.clear();
  }

  void finish(Task task) {
    ++done_;
    if (const int mark = marked_[index(task)]; mark >= 0) {
      marks_[static_cast<std::size_t>(mark)] = {time_s_, busy_s_};
    }
    for (std::size_t b = behind_begin_[index(task)]; b < behind_begin_[index(task) + 1]; ++b) {
      if (--missing_[index(behind_[b])] == 0) ready_.push_back(behind_[b]);
    }
  }

  // Goes on to the next completion. False when nothing is being served.
  bool serve() {
    served_.clear();
    utilization_.assign(busy_s_.size(), 0);
    for (std::size_t s = 0; s < busy_s_.size(); ++s) {
      fluid_.servers_[s].shared ? serve_shared(s) : serve_queues(s);
    }
    if (served_.empty()) return false;
    double passed_s = std::numeric_limits<double>::infinity();
    for (const Served& each : served_) {
      passed_s = std::min(passed_s, remaining_s_[index(each.task)] / each.rate);
    }
    time_s_ += passed_s;
    for (std::size_t s = 0; s < busy_s_.size(); ++s) busy_s_[s] += utilization_[s] * passed_s;
    for (const Served& each : served_) {
      double& remaining_s = remaining_s_[index(each.task)];
      const bool completes = remaining_s / each.rate <= passed_s * (1 + kRounding);
      remaining_s -= each.rate * passed_s;
      if (completes) complete(each.task);
    }
    return true;
  }

  void serve_shared(std::size_t server) {
    double widths = 0;
    for (const Task task : shared_[server]) widths += fluid_.demands_[index(task)].width;
    for (const Task task : shared_[server]) {
      served_.push_back({task, fluid_.demands_[index(task)].width / std::max(1.0, widths)});
    }
    utilization_[server] = std::min(1.0, widths);
  }

  void serve_queues(std::size_t server) {
    const auto& queues = queues_[server];
    const bool both = !queues[0].empty() && !queues[1].empty();
    for (std::size_t q = 0; q < queues.size(); ++q) {
      if (queues[q].empty()) continue;
      served_.push_back({queues[q].front(), both ? fluid_.servers_[server].rates_beside[q] : 1.0});
      utilization_[server] = 1;
    }
  }

  void complete(Task task) {
    const Fluid::Demand& demand = fluid_.demands_[index(task)];
    const auto server = static_cast<std::size_t>(demand.server);
    if (fluid_.servers_[server].shared) {
      std::erase(shared_[server], task);
    } else {
      queues_[server][static_cast<std::size_t>(demand.queue)].pop_front();
    }
    finish(task);
  }

  // Completions that differ by no more are at the same moment.
  static constexpr double kRounding = 1e-12;

  const Fluid& fluid_;
  std::vector<double> remaining_s_;        // per task
  std::vector<int> missing_;               // per task: those before it that are not done
  std::vector<Task> behind_;               // of all tasks, one after the other
  std::vector<std::size_t> behind_begin_;  // per task; one more at the end
  double time_s_ = 0;
  std::vector<double> busy_s_;
  std::vector<std::vector<Task>> shared_;  // per server
  std::vector<std::array<std::deque<Task>, 2>> queues_;
  std::vector<Task> ready_;
  std::vector<Served> served_;
  std::vector<double> utilization_;
  std::vector<int> marked_;  // per task: its mark
  std::vector<Fluid::Mark> marks_;
  std::size_t done_ = 0;
};

Fluid::Server Fluid::add_shared() {
  servers_.push_back({});
  return static_cast<Server>(servers_.size() - 1);
}

Fluid::Server Fluid::add_queues(double first_rate, double second_rate) {
  STRATA_CHECK(first_rate > 0 && second_rate > 0);
  servers_.push_back({.shared = false, .rates_beside = {first_rate, second_rate}});
  return static_cast<Server>(servers_.size() - 1);
}

Fluid::Task Fluid::add(std::initializer_list<Task> after) { return add(Demand{}, after); }

Fluid::Task Fluid::add_shared_task(Server server, double seconds, double width,
                                   std::initializer_list<Task> after) {
  STRATA_CHECK(servers_[static_cast<std::size_t>(server)].shared && width > 0 && width <= 1);
  return add({.server = server, .seconds = seconds, .width = width}, after);
}

Fluid::Task Fluid::add_queued_task(Server server, Queue queue, double seconds,
                                   std::initializer_list<Task> after) {
  STRATA_CHECK(!servers_[static_cast<std::size_t>(server)].shared);
  return add({.server = server, .queue = queue, .seconds = seconds}, after);
}

Fluid::Task Fluid::add(const Demand& demand, std::initializer_list<Task> after) {
  const auto task = static_cast<Task>(demands_.size());
  STRATA_CHECK(demand.seconds >= 0, "a task of {} seconds", demand.seconds);
  for (const Task before : after) {
    STRATA_CHECK(before < task, "task {} waits for {}", task, before);
    if (before != kBeginning) before_.push_back(before);
  }
  demands_.push_back(demand);
  before_end_.push_back(before_.size());
  return task;
}

std::span<const Fluid::Task> Fluid::tasks_before(Task task) const {
  const auto t = static_cast<std::size_t>(task);
  const std::size_t begin = t == 0 ? 0 : before_end_[t - 1];
  return std::span(before_).subspan(begin, before_end_[t] - begin);
}

std::vector<Fluid::Mark> Fluid::run(std::span<const Task> at) const {
  return FluidRun(*this, at).run();
}

}  // namespace strata::engine
