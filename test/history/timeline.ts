// Virtual time: what is to happen, in order. A run of minutes takes milliseconds, and a seed repeats it exactly.

interface Due {
  readonly at: number;
  readonly number: number;
  readonly run: () => void;
}

export class Timeline {
  now = 0;
  #numbers = 0;
  /** A heap, the earliest first; what is due at once happens in the order in which it was asked for. */
  readonly #heap: Due[] = [];

  after(ms: number, run: () => void): void {
    this.#heap.push({ at: this.now + ms, number: this.#numbers++, run });
    for (let place = this.#heap.length - 1; place > 0; ) {
      const parent = (place - 1) >> 1;
      if (!this.#isBefore(place, parent)) break;
      this.#swap(place, parent);
      place = parent;
    }
  }

  /** Lets time pass until nothing is left to happen, or `isOver`. */
  run(isOver: () => boolean): void {
    for (let due = this.#first(); due !== undefined && !isOver(); due = this.#first()) {
      this.now = due.at;
      due.run();
    }
  }

  #first(): Due | undefined {
    const [first] = this.#heap;
    const last = this.#heap.pop();
    if (first === undefined || last === undefined || first === last) return first;
    this.#heap[0] = last;
    for (let place = 0; ; ) {
      let least = place;
      for (const child of [2 * place + 1, 2 * place + 2])
        if (child < this.#heap.length && this.#isBefore(child, least)) least = child;
      if (least === place) return first;
      this.#swap(place, least);
      place = least;
    }
  }

  #isBefore(one: number, other: number): boolean {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (a === undefined || b === undefined) return false;
    return a.at < b.at || (a.at === b.at && a.number < b.number);
  }

  #swap(one: number, other: number): void {
    const [a, b] = [this.#heap[one], this.#heap[other]];
    if (a === undefined || b === undefined) return;
    this.#heap[one] = b;
    this.#heap[other] = a;
  }
}
