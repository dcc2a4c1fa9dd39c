// WorkerSet: whoever computes does so in tiles on one. I/O and communication threads are not part
// of it: they block.
//
// A run has two, each as wide as its cores: one for the ops of the device, one for the state that
// streams by (updates, gradients, checksums). Their background threads are shared, so that beside
// the callers there is one thread less than there are cores. Within a set, a caller that finds all
// slots taken waits until a thread there has finished the whole job it is at; the short jobs that
// feed a drive would wait for long ops. Between the sets the scheduler of the system shares the
// cores.
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
