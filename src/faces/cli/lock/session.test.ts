import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { callingSession } from "./session.js";

const keyIn = (env: Record<string, string>, session?: string): string =>
  callingSession(session === undefined ? {} : { session }, env, process.pid).key;

describe("the calling session", () => {
  test("is the calling process: the same for all its commands, another's is another", () => {
    const own = callingSession({}, {}, process.pid);
    assert.equal(own.kind, "process");
    assert.equal(own.key, keyIn({}));
    assert.notEqual(own.key, callingSession({}, {}, process.ppid).key);
    assert.equal(keyIn({ HOLDFAST_SESSION: "" }), own.key, "empty counts as not set");
  });

  test("is what --session names, else HOLDFAST_SESSION, whoever calls", () => {
    const named = callingSession(
      { session: "a" },
      { HOLDFAST_SESSION: "b", GITHUB_RUN_ID: "1" },
      process.pid,
    );
    assert.equal(named.kind, "named");
    assert.equal(named.key, callingSession({}, { HOLDFAST_SESSION: "a" }, process.ppid).key);
    assert.notEqual(named.key, keyIn({ HOLDFAST_SESSION: "b" }));
    assert.throws(() => keyIn({}, ""), /--session must not be empty/);
  });

  const jobs: readonly (readonly [string, Record<string, string>, Record<string, string>])[] = [
    ["GitHub", { GITHUB_RUN_ID: "1", GITHUB_JOB: "a" }, { GITHUB_JOB: "b" }],
    ["a matrix", { GITHUB_RUN_ID: "1", GITHUB_JOB: "a", RUNNER_NAME: "x" }, { RUNNER_NAME: "y" }],
    ["a second attempt", { GITHUB_RUN_ID: "1", GITHUB_RUN_ATTEMPT: "1" }, { GITHUB_RUN_ATTEMPT: "2" }],
    ["GitLab", { CI_JOB_ID: "1" }, { CI_JOB_ID: "2" }],
    ["Buildkite", { BUILDKITE_JOB_ID: "1" }, { BUILDKITE_JOB_ID: "2" }],
    ["CircleCI", { CIRCLE_WORKFLOW_JOB_ID: "1", CIRCLE_NODE_INDEX: "0" }, { CIRCLE_NODE_INDEX: "1" }],
    ["Jenkins", { JOB_NAME: "a", BUILD_ID: "1", JENKINS_URL: "http://ci/" }, { BUILD_ID: "2" }],
  ];
  for (const [ci, env, other] of jobs)
    test(`is the job of ${ci}`, () => {
      assert.equal(callingSession({}, env, process.pid).kind, "ci");
      assert.equal(keyIn(env), callingSession({}, env, process.ppid).key, "whichever shell calls");
      assert.notEqual(keyIn(env), keyIn({ ...env, ...other }));
      assert.notEqual(keyIn(env), keyIn({}));
    });

  test("is no CI's where common words are set by others", () => {
    assert.equal(callingSession({}, { JOB_NAME: "a", BUILD_ID: "1" }, process.pid).kind, "process");
  });
});

test("what is started from outside a container is a session of its own each time", () => {
  const [one, other] = [callingSession({}, {}, 0), callingSession({}, {}, 0)];
  assert.notEqual(one.key, other.key);
  assert.equal(callingSession({ session: "s" }, {}, 0).key, callingSession({ session: "s" }, {}, 0).key);
});
