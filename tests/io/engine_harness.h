// An Engine on a scratch file, spoken to without a storage: requests go in, completions come out.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "io/drive_space.h"
#include "io/engine.h"
#include "io/scratch_file.h"
#include "kernels/base/budget.h"
#include "kernels/base/bytes.h"
#include "tests/io/pattern.h"

namespace strata::io {

inline constexpr int kHarnessDepth = 32;
inline constexpr std::int64_t kHarnessBlockBytes = 16 * kKiB;
inline constexpr std::int64_t kHarnessBytes = kHarnessDepth * kHarnessBlockBytes;

class EngineHarness {
 public:
  EngineHarness() { preallocate(file_, kHarnessBytes); }

  const DirectFile& file() const { return file_; }
  const AlignedBuffer& buffer() const { return buffer_; }

  // Block `i` of the buffer and of the file, tagged with i + 100.
  Engine::Request request(Operation operation, int i) const {
    const std::int64_t at = i * kHarnessBlockBytes;
    return {{operation, at, buffer_.span(at, kHarnessBlockBytes)},
            static_cast<std::uint64_t>(i) + 100};
  }
  std::vector<Engine::Request> requests(Operation operation) const {
    std::vector<Engine::Request> all;
    for (int i = 0; i < kHarnessDepth; ++i) all.push_back(request(operation, i));
    return all;
  }

  // Submits all in one call and returns the results by tag; each is answered once.
  static std::map<std::uint64_t, int> carry_out(Engine& engine,
                                                const std::vector<Engine::Request>& requests) {
    const Engine::Submission submission = engine.submit(requests);
    EXPECT_EQ(submission.accepted, requests.size());
    EXPECT_EQ(submission.error_number, 0);
    std::map<std::uint64_t, int> results;
    std::array<Engine::Completion, 5> completions;  // fewer than there are
    while (results.size() < requests.size()) {
      const std::size_t count = engine.wait(completions, std::chrono::seconds(60));
      if (count == 0) ADD_FAILURE() << "no completion within a minute";
      if (count == 0) break;
      for (std::size_t i = 0; i < count; ++i) {
        const auto [tag, result] = completions[i];
        EXPECT_TRUE(results.emplace(tag, result).second) << "answered twice: " << tag;
      }
    }
    EXPECT_EQ(engine.wait(completions, std::chrono::milliseconds(1)), 0u);
    return results;
  }

  // Writes all blocks, flushes, and reads them back in one batch each.
  void expect_round_trip(Engine& engine) {
    std::map<std::uint64_t, int> transferred;
    for (int i = 0; i < kHarnessDepth; ++i) transferred[request(Operation::read, i).tag] = 16384;
    fill(buffer_.span(), 0, 1);
    EXPECT_EQ(carry_out(engine, requests(Operation::write)), transferred);
    EXPECT_EQ(carry_out(engine, {{{Operation::flush, 0, AlignedSpan()}, 7}}),
              (std::map<std::uint64_t, int>{{7, 0}}));
    fill(buffer_.span(), 0, 2);
    EXPECT_EQ(carry_out(engine, requests(Operation::read)), transferred);
    EXPECT_EQ(first_difference(buffer_.span(), 0, 1), -1);
  }

 private:
  DirectFile file_ = open_scratch_file(testing::TempDir());
  Budget budget_{"host memory", kHarnessBytes};
  AlignedBuffer buffer_{budget_, "test", kHarnessBytes};
};

}  // namespace strata::io
