/**
 * As much of the protocol buffers encoding as etcd's messages need: integers, bytes and messages within messages. Numbers are
 * exact up to 2^53, which no revision reaches; only ids of clusters are longer, and are read as text.
 */

const high = 2 ** 32;

/** Begins with room for the five bytes that frame a message in gRPC. */
export class Writer {
  #buffer = Buffer.allocUnsafe(2048);
  #at = frameHead;

  int(field: number, value: number): this {
    this.#room(20);
    this.#varint(field * 8);
    this.#varint(value);
    return this;
  }

  flag(field: number): this {
    return this.int(field, 1);
  }

  text(field: number, value: string): this {
    // A character takes at most three bytes in UTF-8.
    this.#room(value.length * 3 + 20);
    this.#varint(field * 8 + 2);
    const start = this.#at;
    this.#at += this.#buffer.write(value, start, "utf8");
    this.#lengthBefore(start);
    return this;
  }

  message(field: number, body: () => void): this {
    this.#room(10);
    this.#varint(field * 8 + 2);
    const start = this.#at;
    body();
    this.#room(10);
    this.#lengthBefore(start);
    return this;
  }

  /** The message as gRPC sends it. The writer is not to be used after it. */
  framed(): Buffer {
    this.#buffer[0] = 0;
    this.#buffer.writeUInt32BE(this.#at - frameHead, 1);
    return this.#buffer.subarray(0, this.#at);
  }

  /** What was written since `start` is moved on by as much as its length takes: cheaper than to work it out before. */
  #lengthBefore(start: number): void {
    const end = this.#at;
    const length = end - start;
    let width = 1;
    for (let rest = length; rest >= 128; rest = rest >>> 7) width++;
    this.#buffer.copyWithin(start + width, start, end);
    this.#at = start;
    this.#varint(length);
    this.#at = end + width;
  }

  #varint(value: number): void {
    let rest = value;
    while (rest >= 128) {
      this.#buffer[this.#at++] = (rest % 128) + 128;
      rest = Math.floor(rest / 128);
    }
    this.#buffer[this.#at++] = rest;
  }

  #room(bytes: number): void {
    if (this.#at + bytes <= this.#buffer.length) return;
    const larger = Buffer.allocUnsafe((this.#at + bytes) * 2);
    this.#buffer.copy(larger, 0, 0, this.#at);
    this.#buffer = larger;
  }
}

/** One flag byte and four of length stand before each message. */
export const frameHead = 5;

/** What a message cannot be read by: it is cut short, or none of ours. */
export class MalformedError extends Error {
  override readonly name = "MalformedError";
}

/** Reads the fields of a message one after the other. */
export class Reader {
  #at: number;
  #kind = 0;

  constructor(
    readonly buffer: Buffer,
    start = 0,
    readonly end = buffer.length,
  ) {
    this.#at = start;
  }

  /** The number of the next field; 0: there is none. */
  next(): number {
    if (this.#at >= this.end) return 0;
    const tag = this.#varint();
    this.#kind = tag % 8;
    return Math.floor(tag / 8);
  }

  int(): number {
    return this.#varint();
  }

  /** For unsigned integers of 64 bits, which a number does not hold: hexadecimal. */
  id(): string {
    let value = 0n;
    for (let shift = 0n; ; shift += 7n) {
      const byte = this.#byte();
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return value.toString(16);
    }
  }

  text(): string {
    const [start, end] = this.#span();
    return this.buffer.toString("utf8", start, end);
  }

  message(): Reader {
    const [start, end] = this.#span();
    return new Reader(this.buffer, start, end);
  }

  ignore(): void {
    if (this.#kind === 0) while (this.#byte() >= 128);
    else if (this.#kind === 2) this.#span();
    else if (this.#kind === 1) this.#at += 8;
    else if (this.#kind === 5) this.#at += 4;
    else throw new MalformedError(`a field of kind ${this.#kind}`);
  }

  #span(): [start: number, end: number] {
    const length = this.#varint();
    const start = this.#at;
    if (start + length > this.end) throw new MalformedError("a message is cut short");
    this.#at += length;
    return [start, this.#at];
  }

  #varint(): number {
    let byte = this.#byte();
    if (byte < 128) return byte;
    let value = byte & 127;
    for (let scale = 128; ; scale *= 128) {
      byte = this.#byte();
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      if (scale > high * high) throw new MalformedError("a number is too long");
    }
  }

  #byte(): number {
    if (this.#at >= this.end) throw new MalformedError("a message is cut short");
    return this.buffer[this.#at++] ?? 0;
  }
}
