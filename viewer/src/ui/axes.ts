// Axis ticks at round numbers of bytes, events or time, each with a label.

import { count, UNITS } from './units.js';

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** Round steps within a unit of 1024 bytes. */
const BINARY = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const DECIMAL = [1, 2, 5];

/** The longest label that fits next to the axis. */
const LONGEST = 11;

/** Byte ticks from one height to another: not too many, round in their unit, and labeled exactly.
 * At least one tick isn't 0. If labels would be too long, they're relative to `base` (otherwise 0). */
export function byteAxis(low: number, high: number, most: number): { ticks: Tick[]; base: number } {
  const least = (high - low) / Math.max(most, 2);
  let step = 1;
  for (let unit = 1; unit < 2 ** 70 && step < least; unit *= 1024) {
    for (const one of BINARY) {
      step = one * unit;
      if (step >= least) break;
    }
  }
  const at = ticks(low, high, step);
  const labeled = (base: number) => at.map((one) => ({ at: one, label: label(one - base, step) }));
  const plain = labeled(0);
  if (plain.every(({ label }) => label.length <= LONGEST)) return { ticks: plain, base: 0 };
  const unit = 1024 ** (Math.floor(Math.log2(step) / 10) + 1);
  const base = Math.floor(low / unit) * unit;
  const relative = labeled(base).map((one) => ({ ...one, label: `+${one.label}` }));
  return { ticks: relative, base };
}

export function byteTicks(low: number, high: number, most: number): Tick[] {
  return byteAxis(low, high, most).ticks;
}

/** `1.25 GiB`, `1,152 MiB`: in the largest unit that takes at most two decimals, which is the same
 * for all multiples of a step. */
export function label(bytes: number, step: number): string {
  if (bytes === 0) return '0';
  let unit = 0;
  while (bytes >= 1024 ** (unit + 1) && Number.isInteger((100 * step) / 1024 ** (unit + 1))) unit++;
  return `${(bytes / 1024 ** unit).toLocaleString('en')} ${UNITS[unit]}`;
}

function decimalStep(least: number): number {
  if (!(least > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = DECIMAL.map((one) => one * power).find((one) => one >= least);
  return step ?? 10 * power;
}

function ticks(from: number, to: number, step: number): number[] {
  const found: number[] = [];
  for (let k = Math.ceil(from / step); k * step <= to; k++) found.push(k * step);
  return found;
}

/** Event ticks: whole numbers. `first` is the number of the event at 0. */
export function eventTicks(from: number, to: number, first: number, most: number): Tick[] {
  const step = Math.max(1, decimalStep((to - from) / Math.max(most, 1)));
  return ticks(from + first, to + first, step).map((at) => ({
    at: at - first,
    // Anything before the first event is labeled as the start.
    label: at < 0 ? 'start' : count(at),
  }));
}

/** Time ticks, in microseconds since the start. */
export function timeTicks(from: number, to: number, most: number): Tick[] {
  const step = decimalStep((to - from) / Math.max(most, 1));
  const [unit, name] = to >= 1e6 ? [1e6, 's'] : to >= 1e3 ? [1e3, 'ms'] : [1, 'µs'];
  return ticks(from, to, step).map((at) => ({
    at,
    label: at === 0 ? '0' : `${Number((at / unit).toPrecision(12)).toLocaleString('en')} ${name}`,
  }));
}
