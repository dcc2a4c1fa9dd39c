// A StepRecord as one line of JSON, as the log and --json show it.
#pragma once

#include <fmt/format.h>

#include "engine/run/step_record.h"

namespace strata::engine {

// A line of JSON or of progress: large enough that no line of a run on up to 32 drives leaves it
// for the heap.
using LineBuffer = fmt::basic_memory_buffer<char, 4096>;

// Appends {"step":…}\n with the fields step, epoch, loss, val_loss, lr, grad_norm, tokens,
// targets, padding, tokens_per_s, mfu, step_s, cpu_s, bound_s, device_peak_bytes, host_peak_bytes,
// nvme_read_bytes, nvme_written_bytes, to_device_bytes, from_device_bytes, gathered_bytes,
// reduced_bytes, commit_written_bytes, nvme_by_kind and nvme_by_device. What is absent, unknown or
// not finite is null, and so, before the first step, is whatever only a step has. Numbers keep all
// their bits. docs/log.md describes the fields.
void append_json_line(LineBuffer& line, const StepRecord& record);

}  // namespace strata::engine
