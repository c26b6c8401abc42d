import assert from "node:assert/strict";
import { test } from "node:test";
import { capacityOf, decodeWatch, encodeTxn, groupSize } from "./messages.js";
import { MalformedError, Reader, Writer } from "./protobuf.js";

test("changes in groups are never more than etcd counts, on any level", () => {
  for (const opsMax of [32, 128, 200, 1024]) {
    const { changes, comparisons } = capacityOf(opsMax);
    for (const compared of [0, 1, 60, comparisons])
      for (const changed of [opsMax + 1, 300, changes]) {
        if (compared > comparisons || changed > changes || changed <= opsMax) continue;
        const size = groupSize(changed, compared, opsMax);
        const count = Math.ceil(changed / size);
        const longest = Math.max(count, compared);
        assert.ok(longest <= opsMax && size <= opsMax - longest, `${opsMax} ${compared} ${changed}: ${size}`);
      }
  }
  assert.deepEqual(capacityOf(128), { comparisons: 120, changes: 960 });
});

test("what is written can be read, whatever its length", () => {
  for (const length of [0, 1, 127, 128, 129, 16_383, 16_384, 70_000]) {
    const text = "ü".repeat(length);
    const writer = new Writer();
    writer.int(1, 2 ** 53 - 1).message(2, () => writer.text(1, text).message(2, () => writer.int(3, length)));
    const reader = new Reader(writer.framed(), 5);
    assert.equal(reader.next(), 1);
    assert.equal(reader.int(), 2 ** 53 - 1);
    assert.equal(reader.next(), 2);
    const inner = reader.message();
    assert.equal(inner.next(), 1);
    assert.equal(inner.text(), text);
    assert.equal(inner.next(), 2);
    const innermost = inner.message();
    assert.equal(innermost.next(), 3);
    assert.equal(innermost.int(), length);
    assert.equal(reader.next(), 0);
  }
});

test("a message that is cut short, or none, is found out", () => {
  const whole = encodeTxn(
    { compare: [], changes: new Map([["k", "v".repeat(300)]]), reads: [], otherwise: [] },
    128,
  ).subarray(5);
  assert.throws(() => new Reader(whole.subarray(0, 4)).message(), MalformedError);
  assert.throws(() => decodeWatch(Buffer.from([0x0a, 0x7f])), MalformedError);
  assert.throws(() => decodeWatch(Buffer.from("ffffffffffffffffffffffff", "hex")), MalformedError);
  const id = new Reader(Buffer.from("ffffffffffffffffff01", "hex")).id();
  assert.equal(id, "ffffffffffffffff");
});
