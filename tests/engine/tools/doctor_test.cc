#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "engine/tools/doctor_command.h"
#include "engine/tools/doctor_finding.h"
#include "engine/tools/doctor_machine.h"
#include "engine/tools/doctor_software.h"
#include "engine/tools/doctor_storage.h"
#include "kernels/base/bytes.h"
#include "kernels/base/machine.h"
#include "tests/support/error_text.h"
#include "tests/support/temporary_folder.h"

namespace strata::engine {
namespace {

using test::mentions;
using test::TemporaryFolder;

const Finding& find(const Findings& findings, const std::string& subject) {
  for (const Finding& finding : findings) {
    if (finding.subject == subject) return finding;
  }
  ADD_FAILURE() << "no finding '" << subject << "'";
  return findings.front();
}

TEST(DoctorFindings, AreALineEachWithAdviceBelow) {
  const Findings findings = {{"io_uring", Verdict::ok, "works", ""},
                             {"memory", Verdict::note, "little", "more helps"}};
  EXPECT_EQ(findings_text(findings),
            "ok       io_uring          works\n"
            "note     memory            little\n"
            "                           -> more helps\n");
  EXPECT_FALSE(has_problem(findings));
  const Findings bad = {{"storage", Verdict::problem, "gone", ""}};
  EXPECT_TRUE(has_problem(bad));
}

TEST(DoctorFindings, LongTextIsWrapped) {
  std::string words;
  for (int i = 0; i < 60; ++i) words += "word ";
  std::istringstream lines(findings_text(Findings{{"x", Verdict::note, words, words}}));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) EXPECT_LE(line.size(), 100u) << line;
  EXPECT_GT(count, 6);
}

TEST(DoctorMachine, CountsWhatTheSystemCounts) {
  const ProcessorLayout layout = processor_layout();
  EXPECT_GE(layout.numa_nodes, 1);
  EXPECT_GE(layout.cores, 1);
  EXPECT_GE(layout.hardware_threads, layout.cores);
  EXPECT_EQ(layout.allowed, static_cast<int>(std::thread::hardware_concurrency()));
}

TEST(DoctorMachine, ReadsTheModeOfHugePages) {
  EXPECT_EQ(huge_page_mode("always [madvise] never\n"), "madvise");
  EXPECT_EQ(huge_page_mode("[always] madvise never\n"), "always");
  EXPECT_EQ(huge_page_mode(""), "");
}

TEST(DoctorEngines, AnObstacleIsANoteWithItsAdvice) {
  io::UringSupport support;
  support.obstacle = "io_uring_setup: Operation not permitted (errno 1): a seccomp filter";
  support.advice = "use a profile that permits it";
  const Findings findings = examine_engines(support);
  ASSERT_EQ(findings.size(), 1u);  // nothing to say of memory that cannot be registered
  EXPECT_EQ(findings[0].verdict, Verdict::note);
  EXPECT_PRED2(mentions, findings[0].found, "seccomp");
  EXPECT_PRED2(mentions, findings[0].advice, "--io-engine threads");
}

TEST(DoctorEngines, ALimitOnLockedMemoryIsANote) {
  io::UringSupport support;
  support.registers_files = true;
  support.registers_buffers = true;
  EXPECT_EQ(find(examine_engines(support), "registered memory").verdict, Verdict::ok);
  support.locked_bytes_max = 64 * kKiB;
  const Finding limited = find(examine_engines(support), "registered memory");
  EXPECT_EQ(limited.verdict, Verdict::note);
  EXPECT_PRED2(mentions, limited.found, "64 KiB");
  EXPECT_PRED2(mentions, limited.advice, "ulimit -l");
}

TEST(DoctorDirectories, AGoodOneIsDescribedAndLeftEmpty) {
  const TemporaryFolder folder;
  const Findings findings = examine_directories(folder.path());
  EXPECT_PRED2(mentions, find(findings, "free space").found, folder.path());
  EXPECT_PRED2(mentions, find(findings, "direct I/O").found, "aligned to");
  EXPECT_EQ(find(findings, "preallocation").verdict, Verdict::ok);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

// A file with a store's name that nobody holds, whatever is in it.
TEST(DoctorDirectories, WhatDeadRunsLeftIsNoted) {
  const TemporaryFolder folder;
  EXPECT_EQ(find(examine_directories(folder.path()), "stale stores").verdict, Verdict::ok);
  std::ofstream(folder.path("strata-0123456789abcdef0123456789abcdef-rank0.store")) << "torn";
  const Finding finding = find(examine_directories(folder.path()), "stale stores");
  EXPECT_EQ(finding.verdict, Verdict::note);
  EXPECT_PRED2(mentions, finding.advice, "strata gc " + folder.path());
}

TEST(DoctorDirectories, TwoOnOneDriveAreNoted) {
  const TemporaryFolder first;
  const TemporaryFolder second;
  const Findings findings = examine_directories(first.path() + "," + second.path());
  const Finding& last = findings.back();
  EXPECT_EQ(last.verdict, Verdict::note);
  EXPECT_PRED2(mentions, last.found, first.path());
}

TEST(DoctorDirectories, OneThatCannotBeUsedIsAProblemAndTheOthersAreStillExamined) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("file"));
  const Findings findings = examine_directories(folder.path("file") + "," + folder.path());
  EXPECT_TRUE(has_problem(findings));
  EXPECT_PRED2(mentions, findings.front().found, "not a directory");
  EXPECT_EQ(find(findings, "preallocation").verdict, Verdict::ok);
}

TEST(DoctorMpi, FindsProgramsAsAShellDoes) {
  const TemporaryFolder folder;
  std::ofstream(folder.path("plain"));
  std::ofstream(folder.path("tool"));
  std::filesystem::permissions(folder.path("tool"), std::filesystem::perms::owner_all);
  std::filesystem::permissions(folder.path("plain"), std::filesystem::perms::owner_read);
  const std::string path_list = "/nonexistent:" + folder.path();
  EXPECT_EQ(find_program("tool", path_list), folder.path("tool"));
  EXPECT_EQ(find_program("plain", path_list), "");
  EXPECT_EQ(find_program("tool", ""), "");
}

TEST(Doctor, JsonHasEverySubjectOnce) {
  const TemporaryFolder folder;
  Options options;
  options.nvme = folder.path();
  options.json = true;
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_doctor(options), 0);
  const auto json = nlohmann::json::parse(::testing::internal::GetCapturedStdout());
  EXPECT_EQ(json["can_train"], true);
  std::map<std::string, int> subjects;
  for (const auto& finding : json["findings"]) {
    ++subjects[finding["subject"].get<std::string>()];
    EXPECT_FALSE(finding["found"].get<std::string>().empty()) << finding;
    EXPECT_TRUE(finding["verdict"] == "ok" || !finding["advice"].get<std::string>().empty())
        << finding;
  }
  for (const char* subject :
       {"kernel", "processors", "processor quota", "instruction set", "memory", "memory limit",
        "huge pages", "io_uring", "file system", "direct I/O", "free space", "preallocation",
        "stale stores", "gpu", "mpi"}) {
    EXPECT_EQ(subjects[subject], 1) << subject;
  }
}

TEST(Doctor, AProblemIsTheExitStatus) {
  Options options;
  options.nvme = "/nonexistent";
  ::testing::internal::CaptureStdout();
  EXPECT_EQ(run_doctor(options), 1);
  const std::string text = ::testing::internal::GetCapturedStdout();
  EXPECT_PRED2(mentions, text, "problem  storage");
  EXPECT_PRED2(mentions, text, "does not work here");
}

}  // namespace
}  // namespace strata::engine
