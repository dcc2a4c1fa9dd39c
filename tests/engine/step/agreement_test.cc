// Failures of one rank become those of all, with one message and one exit code.
#include "engine/step/agreement.h"

#include <gtest/gtest.h>

#include "tests/support/thread_ranks.h"

namespace strata::engine {
namespace {

// What each of three ranks threw.
std::vector<std::exception_ptr> on_ranks(const std::function<void(comm::Communicator&)>& body) {
  return test::ThreadRanks(3).run(body);
}

void expect_agreed(const std::vector<std::exception_ptr>& failures, const std::string& text,
                   int exit_code) {
  for (const std::exception_ptr& failure : failures) {
    ASSERT_NE(failure, nullptr);
    try {
      std::rethrow_exception(failure);
    } catch (const AgreedFailure& error) {
      EXPECT_EQ(error.what(), text);
      EXPECT_EQ(exit_code_of(error), exit_code);
    }
  }
}

TEST(Agreement, EveryRankGetsItsOwnResult) {
  for (const std::exception_ptr& failure : on_ranks([](comm::Communicator& comm) {
         EXPECT_EQ(agree(comm, [&] { return comm.rank() * 10; }), comm.rank() * 10);
       })) {
    EXPECT_EQ(failure, nullptr);
  }
}

TEST(Agreement, TheFirstRankThatFailedIsNamed) {
  const auto failures = on_ranks([](comm::Communicator& comm) {
    agree(comm, [&] {
      if (comm.rank() > 0) throw_error<ConfigError>("no drive {}", comm.rank());
    });
  });
  expect_agreed(failures, "rank 1: no drive 1", kExitUsage);
}

TEST(Agreement, WhatAllSayIsSaidOnce) {
  expect_agreed(on_ranks([](comm::Communicator& comm) {
                  agree(comm, [] { throw IoError("the folder is gone"); });
                }),
                "the folder is gone", kExitFailed);
}

TEST(Agreement, AFailureKeepsItsExitCodeThroughAnother) {
  expect_agreed(on_ranks([](comm::Communicator& comm) {
                  agree(comm, [&] {
                    if (comm.rank() == 2) throw ExitError("interrupted", kExitSignalled + 15);
                  });
                }),
                "rank 2: interrupted", 143);
}

TEST(Agreement, OneRankThrowsItsOwnError) {
  const auto comm = comm::make_single_rank_communicator();
  EXPECT_THROW(agree(*comm, [] { throw FormatError("no header"); }), FormatError);
}

}  // namespace
}  // namespace strata::engine
