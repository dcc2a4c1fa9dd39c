// Fluid: work as a fluid that flows through servers, simulated from one completion to the next.
//
// A task asks for some seconds of one server and begins when all tasks before it are done; one
// without a server is a mere meeting point. Tasks are added after those they wait for, so there are
// no cycles. Servers are of two kinds:
//
//   shared   all tasks at once, each with a width: the share of the server that it can use. It gets
//            that, or, where the widths exceed 1, its part in proportion.
//   queues   two queues of tasks in order of arrival, the first of each being served; while both
//            are busy, each goes on at a rate of its own.
//
//   task:  waiting ──all before it done──▶ served (queues: in its turn) ──▶ done
//
// Time is in seconds from 0. Deterministic; one thread.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

namespace strata::engine {

class Fluid {
 public:
  using Task = std::int32_t;
  using Server = std::int32_t;
  static constexpr Task kBeginning = -1;  // to wait for it is to wait for nothing
  enum class Queue : std::uint8_t { first, second };

  Server add_shared();
  // The rates of the first of each queue while both are busy, alone being 1.
  Server add_queues(double first_rate, double second_rate);

  // `after`: kBeginning is left out.
  Task add(std::initializer_list<Task> after);
  Task add_shared_task(Server server, double seconds, double width,
                       std::initializer_list<Task> after);
  Task add_queued_task(Server server, Queue queue, double seconds,
                       std::initializer_list<Task> after);

  // The state of the simulation when a task is done.
  struct Mark {
    double time_s = 0;
    std::vector<double> busy_s;  // per server: shared: what was used; queues: while one was busy
  };
  // Runs all tasks. Returns a mark per task of `at`, in its order.
  std::vector<Mark> run(std::span<const Task> at) const;

 private:
  friend class FluidRun;
  struct Demand {
    Server server = -1;
    Queue queue = Queue::first;
    double seconds = 0;
    double width = 1;
  };
  struct ServerKind {
    bool shared = true;
    std::array<double, 2> rates_beside{1, 1};
  };
  Task add(const Demand& demand, std::initializer_list<Task> after);
  std::span<const Task> tasks_before(Task task) const;

  std::vector<ServerKind> servers_;
  std::vector<Demand> demands_;
  std::vector<Task> before_;             // of all tasks, one after the other
  std::vector<std::size_t> before_end_;  // per task
};

}  // namespace strata::engine
