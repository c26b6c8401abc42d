import assert from "node:assert/strict";
import { test } from "node:test";
import { StoreError } from "../../store/store.js";
import { isSameCluster, type MetaNow, readMeta } from "./meta.js";

const now: MetaNow = {
  meta: { format: 1, epoch: "e", cluster: "ab", ahead: 7, moved: null },
  revision: 100,
};

test("a cluster that went on is the same: its log is never less ahead of the revision", () => {
  assert.ok(isSameCluster(now, { cluster: "ab", raftIndex: 107, revision: 100 }));
  assert.ok(isSameCluster(now, { cluster: "ab", raftIndex: 5_000_020, revision: 5_000_000 }));
});

test("a member that is late is no other cluster", () => {
  assert.ok(isSameCluster(now, { cluster: "ab", raftIndex: 60, revision: 58 }));
});

test("one with another id, or whose log began anew, is another", () => {
  assert.ok(!isSameCluster(now, { cluster: "ac", raftIndex: 107, revision: 100 }));
  assert.ok(!isSameCluster(now, { cluster: "ab", raftIndex: 5, revision: 100 }));
  assert.ok(!isSameCluster(now, { cluster: "ab", raftIndex: 5, revision: 5_000_000 }));
});

const kv = (value: string) => ({ key: "holdfast/m", value, revision: 1 });

test("what is not ours, or of a newer format, is refused", () => {
  const is = (kind: string) => (error: unknown) => error instanceof StoreError && error.kind === kind;
  for (const value of ["", "x", "null", "1", "[]", "{}"])
    assert.throws(() => readMeta(kv(value), "here"), is("corrupt"));
  assert.throws(() => readMeta(kv('{"format":2}'), "here"), is("unsupported"));
});
