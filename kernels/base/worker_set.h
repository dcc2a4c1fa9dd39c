// WorkerSet: the one owner of the cores. Compute and optimizer run their tiles on it, so that
// the threads of a run never outnumber its cores. I/O and communication threads are not
// part of it: they block.
//
// Several threads may call parallel_for at once; their tiles share the workers. A caller works too,
// so a set of 1 runs everything on the calling thread. Which worker runs which tile is not fixed:
// results must depend on the tile alone, and the index of the worker only picks scratch memory.
// parallel_for allocates nothing once warm. Not reentrant: a tile must not call parallel_for.
// Backed by a oneTBB task arena.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace strata {

class WorkerSet {
 public:
  // `cpus`: the processors that workers are bound to, in order (empty: not bound).
  explicit WorkerSet(int threads, std::vector<int> cpus = {});
  ~WorkerSet();
  WorkerSet(const WorkerSet&) = delete;
  WorkerSet& operator=(const WorkerSet&) = delete;

  int threads() const { return threads_; }
  // Worker indices passed to a body are in [0, worker_slots()).
  int worker_slots() const;

  // Runs body(tile, worker) for every tile in [0, tiles) and returns when all are done.
  // The first exception of a body is rethrown here.
  template <typename Body>
  void parallel_for(std::int64_t tiles, const Body& body) {
    if (tiles <= 0) return;
    run(
        tiles,
        [](const void* self, std::int64_t tile, int worker) {
          (*static_cast<const Body*>(self))(tile, worker);
        },
        &body);
  }

 private:
  using TileFunction = void (*)(const void* body, std::int64_t tile, int worker);
  void run(std::int64_t tiles, TileFunction function, const void* body);

  struct Impl;
  int threads_;
  std::unique_ptr<Impl> impl_;
};

}  // namespace strata
