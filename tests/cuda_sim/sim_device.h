// What tests of the simulated device use of it: buffers of its memory, a stream, and kernels run to
// their end.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/device/cuda/kernel_code.h"
#include "kernels/device/cuda/launch.h"

namespace strata::cuda_sim {

#define EXPECT_CUDA(call) EXPECT_EQ(call, cudaSuccess)

// For tests of reports, which end the process: each in a process of its own.
class ReportTest : public testing::Test {
 protected:
  ReportTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

class TestStream {
 public:
  TestStream() { EXPECT_CUDA(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~TestStream() { EXPECT_CUDA(cudaStreamDestroy(stream_)); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  TestEvent() { EXPECT_CUDA(cudaEventCreateWithFlags(&event_, cudaEventDefault)); }
  ~TestEvent() { EXPECT_CUDA(cudaEventDestroy(event_)); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaEvent_t event_ = nullptr;
};

// Device memory.
template <typename T>
class Memory {
 public:
  explicit Memory(std::int64_t elements) {
    EXPECT_CUDA(cudaMalloc(reinterpret_cast<void**>(&data_),
                           static_cast<std::size_t>(elements) * sizeof(T)));
  }
  ~Memory() { EXPECT_CUDA(cudaFree(data_)); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
};

// Registered host memory.
template <typename T>
class Pinned {
 public:
  explicit Pinned(std::int64_t elements, T value = {})
      : values_(static_cast<std::size_t>(elements), value) {
    EXPECT_CUDA(cudaHostRegister(values_.data(), bytes(), cudaHostRegisterDefault));
  }
  ~Pinned() { EXPECT_CUDA(cudaHostUnregister(values_.data())); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  T* data() { return values_.data(); }
  std::size_t bytes() const { return values_.size() * sizeof(T); }
  const std::vector<T>& values() const { return values_; }

 private:
  std::vector<T> values_;
};

template <typename T>
std::vector<T> read(cudaStream_t stream, const T* data, std::int64_t elements) {
  Pinned<T> host(elements);
  EXPECT_CUDA(cudaMemcpyAsync(host.data(), data, host.bytes(), cudaMemcpyDefault, stream));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
  return host.values();
}

// Runs a kernel to its end on a stream of its own.
template <typename... Parameters, typename... Arguments>
void run(const cuda::LaunchSize& size, void (*kernel)(Parameters...), Arguments... arguments) {
  const TestStream stream;
  EXPECT_CUDA(cuda::launch(stream, size, kernel, arguments...));
  EXPECT_CUDA(cudaStreamSynchronize(stream));
}

}  // namespace strata::cuda_sim
