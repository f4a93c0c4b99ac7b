// Axis ticks at round numbers of bytes, events or time, each with a label.

import { count, size } from './units.js';

export interface Tick {
  readonly at: number;
  readonly label: string;
}

/** Round steps within a unit of 1024 bytes. */
const BINARY = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512];
const DECIMAL = [1, 2, 5];

/** Byte ticks from 0 up to a height: not too many, and round in their unit. */
export function byteTicks(low: number, high: number, most: number): Tick[] {
  const least = (high - low) / Math.max(most, 1);
  let step = 1;
  for (let unit = 1; unit < 2 ** 70 && step < least; unit *= 1024) {
    for (const one of BINARY) {
      step = one * unit;
      if (step >= least) break;
    }
  }
  return ticks(low, high, step).map((at) => ({ at, label: at === 0 ? '0' : size(at) }));
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
