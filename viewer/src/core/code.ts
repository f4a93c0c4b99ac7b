// A snapshot's frames and stacks: the code that allocated.

import type { Frames, Stack } from '../protocol.js';
import { decoded, integers } from './columns.js';
import type { PageData } from './page.js';

/** Tree nodes that aren't frames: the root, allocations recorded without a stack, and carried-over
 * allocations without one. */
export const ROOT = -1;
export const NO_STACK = -2;
export const BEFORE_RECORDING = -3;
/** This number and all lower ones represent groups by `line`. */
export const NAMED = -16;

const CHECKPOINTS = [
  'setCheckpointPoolState',
  'apply_checkpoint_execution_state_in_allocator',
] as const;

export class Code {
  readonly texts: readonly string[];
  readonly frames: Frames;
  /** Number of stacks. As a stack's number, it means no stack, and the next number means carried
   * over without a stack. */
  readonly stacks: number;
  /** The index of each stack's first (innermost) frame, then the end of the last stack. */
  readonly offsets: Int32Array;
  readonly ids: Int32Array;
  /** For each of `ids`, 1 if the frame is user or library code. */
  readonly own: Uint8Array;
  private madeByGraphs: Uint8Array | null = null;

  constructor(said: PageData, data: Uint8Array) {
    this.texts = said.texts;
    this.frames = {
      functions: integers(data, said.frame_function),
      files: integers(data, said.frame_file),
      lines: decoded(data, said.frame_line),
      sources: integers(data, said.frame_source),
      inner: integers(data, said.frame_allocator),
    };
    const lengths = integers(data, said.stack_frames);
    this.stacks = lengths.length;
    this.offsets = new Int32Array(lengths.length + 1);
    let at = 0;
    for (let i = 0; i < lengths.length; i++) {
      at += lengths[i]!;
      this.offsets[i + 1] = at;
    }
    this.ids = integers(data, said.frames);
    this.own = new Uint8Array(integers(data, said.stack_code));
  }

  /** The frames of a stack; empty if it doesn't exist. */
  stack(number: number): Stack {
    const [from, to] = [this.offsets[number] ?? 0, this.offsets[number + 1] ?? 0];
    if (number < 0 || number >= this.stacks)
      return { frames: new Int32Array(), code: new Uint8Array() };
    return { frames: this.ids.slice(from, to), code: this.own.slice(from, to) };
  }

  /** For each stack, 1 if a CUDA graph checkpoint made its allocations, which have the sizes of
   * blocks (see memreplay/engine/replay/synthetic.pyx). */
  get synthetic(): Uint8Array {
    this.madeByGraphs ??= this.findSynthetic();
    return this.madeByGraphs;
  }

  private findSynthetic(): Uint8Array {
    const texts = this.texts.map((one) => CHECKPOINTS.some((name) => one.includes(name)));
    const found = new Uint8Array(this.stacks);
    if (!texts.includes(true)) return found;
    for (let stack = 0; stack < this.stacks; stack++) {
      for (let i = this.offsets[stack]!; i < this.offsets[stack + 1]!; i++) {
        if (texts[this.frames.functions[this.ids[i]!]!]) found[stack] = 1;
      }
    }
    return found;
  }

  /** Stores a stack's tree nodes in `into`, innermost first: all its frames, or only those that
   * are code. For a stack without code, that's its group by `line` (`named`) or, if there are
   * no such groups, its innermost frame. If there's no stack, the node is the number for that. */
  path(number: number, frames: 'all' | 'code', named: Int32Array | null, into: number[]): void {
    into.length = 0;
    if (number >= this.stacks) {
      into.push(number === this.stacks ? NO_STACK : BEFORE_RECORDING);
      return;
    }
    const from = this.offsets[number]!;
    const to = this.offsets[number + 1]!;
    for (let i = from; i < to; i++) {
      if (frames === 'all' || this.own[i]) into.push(this.ids[i]!);
    }
    if (into.length) return;
    if (from === to) into.push(NO_STACK);
    else into.push(named ? NAMED - named[number]! : this.ids[from]!);
  }
}
