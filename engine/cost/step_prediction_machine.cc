#include "engine/cost/step_prediction_machine.h"

#include <algorithm>

namespace strata::engine {

namespace {

double seconds_of(double bytes, double bytes_per_s) {
  return bytes_per_s > 0 ? bytes / bytes_per_s : 0;
}

// Of its rate alone, what a direction keeps while its link goes both ways: half of the rate that
// the link has then, or where that is not known half of its own.
double rate_beside(double both_bytes_per_s, double alone_bytes_per_s) {
  if (both_bytes_per_s == 0 || alone_bytes_per_s == 0) return 0.5;
  return 0.5 * both_bytes_per_s / alone_bytes_per_s;
}

bool slows_itself_down(const std::optional<GpuRates>& gpu) {
  return gpu && gpu->both_ways_bytes_per_s > 0;
}

}  // namespace

PredictedMachine::PredictedMachine(const MachineRates& rates, int threads)
    : rates_(rates),
      workers_(rates.workers_share),
      one_core_(workers_ / threads),
      copying_core_(one_core_) {
  if (rates.core_memory_bytes_per_s > 0) {
    copying_core_ = std::clamp(workers_ * rates.core_memory_bytes_per_s / rates.memory_bytes_per_s,
                               one_core_, workers_);
  }
  for (int r = 0; r < kResources; ++r) {
    const auto resource = static_cast<Resource>(r);
    Fluid::Server& server = servers_[static_cast<std::size_t>(r)];
    if (resource == Resource::cores) {
      server = fluid_.add_shared();
    } else if (resource == Resource::nvme) {
      server = fluid_.add_queues(
          rate_beside(rates.nvme.mixed_bytes_per_s, rates.nvme.read_bytes_per_s),
          rate_beside(rates.nvme.mixed_bytes_per_s, rates.nvme.written_bytes_per_s));
    } else if (resource == Resource::to_device && slows_itself_down(rates.gpu)) {
      const GpuRates& gpu = *rates.gpu;
      server = fluid_.add_queues(
          std::min(1.0, rate_beside(gpu.both_ways_bytes_per_s, gpu.to_device_bytes_per_s)),
          std::min(1.0, rate_beside(gpu.both_ways_bytes_per_s, gpu.from_device_bytes_per_s)));
    } else if (resource == Resource::from_device && slows_itself_down(rates.gpu)) {
      server = this->server(Resource::to_device);
    } else {
      server = fluid_.add_queues(1, 1);
    }
  }
}

void PredictedMachine::wait(Lane& lane, std::initializer_list<Moment> moments) {
  for (const Moment moment : moments) {
    if (moment == lane.last || moment == Fluid::kBeginning) continue;
    lane.last = fluid_.add({lane.last, moment});
  }
}

void PredictedMachine::on_workers(Lane& lane, double seconds) {
  lane.last =
      fluid_.add_shared_task(server(Resource::cores), seconds * workers_, workers_, {lane.last});
}

void PredictedMachine::compute(Lane& lane, double seconds) {
  const bool by_workers = !rates_.gpu;
  const Moment begin = lane.last;
  if (by_workers) on_workers(lane, seconds);
  if (by_workers && workers_ == 1) return;  // the cores are these
  const Resource device = by_workers ? Resource::workers : Resource::gpu;
  wait(lane, {fluid_.add_queued_task(server(device), Fluid::Queue::first, seconds, {begin})});
}

void PredictedMachine::pass_over(Lane& lane, double bytes) {
  on_workers(lane, seconds_of(bytes, rates_.memory_bytes_per_s));
}

void PredictedMachine::update(Lane& lane, double bytes) {
  on_workers(lane, seconds_of(bytes, rates_.optimizer_bytes_per_s));
}

void PredictedMachine::pass_over_on_device(Lane& lane, double bytes) {
  if (rates_.gpu) compute(lane, seconds_of(bytes, rates_.gpu->memory_bytes_per_s));
}

void PredictedMachine::copy_in_host(Lane& lane, double bytes) {
  lane.last = fluid_.add_shared_task(server(Resource::cores),
                                     workers_ * seconds_of(2 * bytes, rates_.memory_bytes_per_s),
                                     copying_core_, {lane.last});
}

void PredictedMachine::copy(Lane& lane, Resource link, double bytes) {
  if (!rates_.gpu) return copy_in_host(lane, bytes);
  const double rate = link == Resource::to_device ? rates_.gpu->to_device_bytes_per_s
                                                  : rates_.gpu->from_device_bytes_per_s;
  const Fluid::Queue queue =
      link == Resource::to_device ? Fluid::Queue::first : Fluid::Queue::second;
  lane.last = fluid_.add_queued_task(server(link), queue, seconds_of(bytes, rate), {lane.last});
}

void PredictedMachine::copy_to_device(Lane& lane, double bytes) {
  copy(lane, Resource::to_device, bytes);
}

void PredictedMachine::copy_from_device(Lane& lane, double bytes) {
  copy(lane, Resource::from_device, bytes);
}

void PredictedMachine::copy_on_device(Lane& lane, double bytes) {
  rates_.gpu ? pass_over_on_device(lane, 2 * bytes) : copy_in_host(lane, bytes);
}

// On the cpu device what arrives is copied, too.
void PredictedMachine::receive(Lane& lane, double bytes) {
  const Moment received =
      fluid_.add_queued_task(server(Resource::network), Fluid::Queue::first,
                             seconds_of(bytes, rates_.network.bytes_per_s), {lane.last});
  if (!rates_.gpu) copy_in_host(lane, bytes);
  wait(lane, {received});
}

// The drive's time, and at the same time the cores': one of them, or as many as are needed to serve
// the drive at its rate.
Moment PredictedMachine::transfer(Fluid::Queue queue, double bytes, double bytes_per_s,
                                  Moment after) {
  const Moment drive = fluid_.add_queued_task(server(Resource::nvme), queue,
                                              seconds_of(bytes, bytes_per_s), {after});
  const double core_s_per_byte = rates_.nvme.core_s_per_byte;
  if (core_s_per_byte == 0) return drive;
  const double width = std::min(workers_, one_core_ * std::max(1.0, core_s_per_byte * bytes_per_s));
  const Moment cores = fluid_.add_shared_task(server(Resource::cores),
                                              bytes * core_s_per_byte * one_core_, width, {after});
  return fluid_.add({drive, cores});
}

Moment PredictedMachine::read(double bytes, std::initializer_list<Moment> after) {
  return transfer(Fluid::Queue::first, bytes, rates_.nvme.read_bytes_per_s, fluid_.add(after));
}

void PredictedMachine::check(Lane& lane, Moment arrival, double bytes) {
  wait(lane, {arrival});
  on_workers(lane, seconds_of(bytes, rates_.checksum_bytes_per_s));
}

Moment PredictedMachine::write(Lane& lane, double bytes) {
  on_workers(lane, seconds_of(bytes, rates_.checksum_bytes_per_s));
  return transfer(Fluid::Queue::second, bytes, rates_.nvme.written_bytes_per_s, lane.last);
}

std::vector<PredictedMachine::Busy> PredictedMachine::run(const std::vector<Moment>& at) const {
  std::vector<Busy> busy;
  for (const Fluid::Mark& mark : fluid_.run(at)) {
    Busy& each = busy.emplace_back();
    each.time_s = mark.time_s;
    for (std::size_t r = 0; r < servers_.size(); ++r) {
      each.busy_s[r] = mark.busy_s[static_cast<std::size_t>(servers_[r])];
    }
  }
  return busy;
}

}  // namespace strata::engine
