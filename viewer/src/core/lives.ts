// The allocations of a device over its events: what is live when, and how many bytes that is.

/** Of each allocation, in the order in which they were made. Events count from 0; -1 is before the
 * first one, and what never ends does so behind the last one. */
export interface Lives {
  readonly begin: Float64Array;
  readonly end: Float64Array;
  readonly bytes: Float64Array;
}

/** Checkpoints hold no more ids than these, all together. */
const MOST_IDS = 1 << 24;
const LEAST_GAP = 256;

/** What happens at each event, sums, and live sets to begin from. A moment m is between events: after
 * m of them; moment 0 is the start, and there is one more moment than events. */
export class Timeline {
  readonly events: number;
  /** Of each event, +i + 1 where allocation i begins, -(i + 1) where it ends, 0 for neither. */
  readonly changes: Int32Array;
  /** Bytes at each moment. */
  readonly usage: Float64Array;
  /** How many are live at each moment. */
  readonly count: Int32Array;
  /** From how many events on checkpoints are apart. */
  readonly gap: number;
  private readonly checkpoints: Int32Array[];

  constructor(
    readonly lives: Lives,
    events: number,
  ) {
    const { begin, end, bytes } = lives;
    const n = begin.length;
    this.events = events;
    this.changes = new Int32Array(events);
    this.usage = new Float64Array(events + 1);
    this.count = new Int32Array(events + 1);
    const first: number[] = [];
    for (let i = 0; i < n; i++) {
      const from = begin[i]!;
      const to = end[i]!;
      if (to <= from) continue; // it counts at no moment
      if (from >= 0) this.changes[from] = i + 1;
      else {
        first.push(i);
        this.usage[0]! += bytes[i]!;
      }
      if (to < events) this.changes[to] = -(i + 1);
    }
    this.count[0] = first.length;
    let most = first.length;
    for (let e = 0; e < events; e++) {
      const change = this.changes[e]!;
      const sign = Math.sign(change);
      const id = Math.abs(change) - 1;
      this.usage[e + 1] = this.usage[e]! + (sign ? sign * bytes[id]! : 0);
      this.count[e + 1] = this.count[e]! + sign;
      most = Math.max(most, this.count[e + 1]!);
    }
    this.gap = Math.max(LEAST_GAP, Math.ceil((Math.max(most, 1) * (events + 1)) / MOST_IDS));
    this.checkpoints = this.checkpointed(first);
  }

  private checkpointed(first: readonly number[]): Int32Array[] {
    const n = this.lives.begin.length;
    const live = new Uint8Array(n);
    for (const i of first) live[i] = 1;
    const found: Int32Array[] = [Int32Array.from(first)];
    // What was live at the checkpoint before, and what began since: in order, and all there can be.
    let known = found[0]!;
    let begun: number[] = [];
    for (let e = 0; e < this.events; e++) {
      const change = this.changes[e]!;
      if (change > 0) {
        live[change - 1] = 1;
        begun.push(change - 1);
      } else if (change < 0) live[-change - 1] = 0;
      if ((e + 1) % this.gap) continue;
      const here = new Int32Array(this.count[e + 1]!);
      let at = 0;
      for (const i of known) if (live[i]) here[at++] = i;
      for (const i of begun) if (live[i]) here[at++] = i;
      found.push(here);
      known = here;
      begun = [];
    }
    return found;
  }

  /** The last checkpoint up to a moment: its moment, and who is live there, in order. */
  checkpoint(moment: number): { moment: number; ids: Int32Array } {
    const k = Math.floor(moment / this.gap);
    return { moment: k * this.gap, ids: this.checkpoints[k]! };
  }

  /** Who is live at a moment, in order of allocation. */
  live(moment: number): Int32Array {
    const from = this.checkpoint(moment);
    const ended = new Set<number>();
    const begun: number[] = [];
    for (let e = from.moment; e < moment; e++) {
      const change = this.changes[e]!;
      if (change > 0) begun.push(change - 1);
      else if (change < 0) ended.add(-change - 1);
    }
    const all = [...from.ids, ...begun];
    return Int32Array.from(ended.size ? all.filter((i) => !ended.has(i)) : all);
  }

  /** The moment of the highest usage in [from, to), the first of equal ones. */
  highest(from: number, to: number): number {
    let best = from;
    for (let m = from + 1; m < to; m++) if (this.usage[m]! > this.usage[best]!) best = m;
    return best;
  }
}
