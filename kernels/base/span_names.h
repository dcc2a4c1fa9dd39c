// Names of trace spans in which a thread waits, and of the rows of threads: literals, so that what
// records them and what reads them (engine/profile/span_meaning.h) mean the same.
// Streams name their waits by WaitFor (kernels/device/device.h).
#pragma once

namespace strata::span_names {

// Rows that several parts of a thread write to.
inline constexpr const char* kMain = "main";
inline constexpr const char* kFetch = "fetch";
inline constexpr const char* kGradients = "gradients";
inline constexpr const char* kOptimizer = "optimizer";

inline constexpr const char* kStep = "step";      // main: enqueues work, where it does not wait
inline constexpr const char* kUpdate = "update";  // of one chunk of the optimizer

// For the drive: until bytes are there and verified, or written.
inline constexpr const char* kWaitRead = "wait: read";
inline constexpr const char* kWaitWrite = "wait: write";
// For pinned memory whose last content is still on its way, and for a slot that is in use.
inline constexpr const char* kWaitStaging = "wait: staging";
inline constexpr const char* kWaitSlot = "wait: slot";
// For compute to come near enough to what is next.
inline constexpr const char* kWaitTurn = "wait: turn";
// For another row.
inline constexpr const char* kWaitUpdate = "wait: optimizer";
inline constexpr const char* kWaitFetch = "wait: fetch";
inline constexpr const char* kWaitCompute = "wait: compute";
inline constexpr const char* kWaitGradients = "wait: gradients";
inline constexpr const char* kWaitLoad = "wait: activation load";
inline constexpr const char* kWaitStore = "wait: activation store";
inline constexpr const char* kWaitCopyIn = "wait: act in";
inline constexpr const char* kWaitCopyOut = "wait: act out";
inline constexpr const char* kWaitToHost = "wait: d2h";
// For other ranks, and for a commit that updates must not overtake.
inline constexpr const char* kWaitRanks = "wait: ranks";
inline constexpr const char* kWaitCommit = "wait: commit";

}  // namespace strata::span_names
