// Writes bytes, counts, shares, durations and times for people, as the command line does
// (memreplay/render/units.py): the same number is the same text on both.

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** A number with so many decimals. Of a number halfway between two the even one is taken, as Python
 * does; `toFixed` takes the upper one, and 1,280 bytes would be 1.3 KiB here and 1.2 KiB there. */
export function fixed(value: number, digits: number): string {
  const halves = Math.abs(value) * 2 ** (digits + 1);
  // Only an odd number of halves of a power of two ends in a 5 behind these digits, exactly.
  if (!Number.isInteger(halves) || halves % 2 === 0) return value.toFixed(digits);
  const below = Math.floor(Math.abs(value) * 10 ** digits);
  const even = below % 2 === 0 ? below : below + 1;
  return `${value < 0 ? '-' : ''}${(even / 10 ** digits).toFixed(digits)}`;
}

function grouped(number: number): string {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `512 B`, `38.4 GiB`: IEC units, one decimal above bytes, a minus sign where below zero. */
export function size(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  // 1023.95 would be written 1024.0: what counts is the number as it will be rounded.
  while (unit < UNITS.length - 1 && value >= (unit === 0 ? 1024 : 1023.95)) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? '-' : '';
  return `${sign}${fixed(value, unit === 0 ? 0 : 1)} ${UNITS[unit]}`;
}

/** `+1.5 MiB`, `-512 B`, `0 B`: a size that is a change. */
export function signedSize(bytes: number): string {
  return bytes > 0 ? `+${size(bytes)}` : size(bytes);
}

/** `1,234,567 B`: every digit. */
export function exactSize(bytes: number): string {
  return `${count(bytes)} B`;
}

/** `22,331`. */
export function count(number: number): string {
  return grouped(number);
}

/** `+22,331`, `-5`, `0`: a count that is a change. */
export function signedCount(number: number): string {
  return number > 0 ? `+${count(number)}` : count(number);
}

/** `1 block`, `22,331 blocks`. */
export function counted(number: number, noun: string): string {
  return number === 1 ? `${count(number)} ${noun}` : `${count(number)} ${noun}s`;
}

/** `42.1%` of a share from 0.0 to 1.0; a share that would vanish in the rounding is `<0.1%`. */
export function percent(share: number): string {
  return share > 0 && share < 0.0005 ? '<0.1%' : `${fixed(share * 100, 1)}%`;
}

/** `250 us`, `0.412 s`, `2 min 03.5 s`, `1 h 02 min`, of whole microseconds. */
export function duration(us: number): string {
  if (us < 0) return `-${duration(-us)}`;
  if (us < 1_000) return `${us} us`;
  if (us < 59_999_500) return `${fixed(us / 1e6, 3)} s`;
  const tenths = Math.floor((us + 50_000) / 100_000);
  if (tenths < 36_000) {
    const seconds = fixed((tenths % 600) / 10, 1).padStart(4, '0');
    return `${Math.floor(tenths / 600)} min ${seconds} s`;
  }
  const minutes = Math.floor((us + 30_000_000) / 60_000_000);
  const rest = String(minutes % 60).padStart(2, '0');
  return `${count(Math.floor(minutes / 60))} h ${rest} min`;
}

/** `84 us`, `7.87 ms`, `1.25 s`, then as `duration`: with as many digits as tell short ones. */
export function fineDuration(us: number): string {
  if (us < 1_000) return `${us} us`;
  if (us < 999_995) return `${fixed(us / 1e3, 2)} ms`;
  return us < 59_995_000 ? `${fixed(us / 1e6, 2)} s` : duration(us);
}

/** `+0.412 s`, `-3 us`: a time relative to another. */
export function signedDuration(us: number): string {
  return us < 0 ? duration(us) : `+${duration(us)}`;
}

/** The microseconds that a date can name: years 1 to 9999. */
const FIRST_US = -62_135_596_800_000_000;
const BEHIND_US = 253_402_300_800_000_000;

/** `2026-07-12 16:40:22.412345 UTC` of microseconds since the epoch. */
export function timeUtc(us: number): string {
  // Not a time at all, but the file says so.
  if (!(us >= FIRST_US && us < BEHIND_US)) return `${us} us since 1970`;
  const seconds = Math.floor(us / 1e6);
  const rest = String(us - seconds * 1e6).padStart(6, '0');
  const text = new Date(seconds * 1e3).toISOString();
  return `${text.slice(0, 10)} ${text.slice(11, 19)}.${rest} UTC`;
}

/** `events 1,000 to 1,999 of 10,000`: which part of a trace was read. */
export function rangeWords(first: number, events: number, whole: number): string {
  if (events === 0) return `none of ${counted(whole, 'event')}`;
  return `events ${count(first)} to ${count(first + events - 1)} of ${count(whole)}`;
}
