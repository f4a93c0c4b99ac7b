// Writes bytes, counts, shares, durations and times for people, as the command line does
// (memreplay/render/units.py): the same number always gives the same text.

export const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'] as const;

/** Formats a number with this many decimals. A number halfway between two results is rounded to
 * the even one, as in Python. `toFixed` rounds up, so 1,280 bytes would be 1.3 KiB here and 1.2
 * KiB on the command line. */
export function fixed(value: number, digits: number): string {
  const halves = Math.abs(value) * 2 ** (digits + 1);
  // Only odd multiples of a negative power of two end exactly in a 5 after these digits.
  if (!Number.isInteger(halves) || halves % 2 === 0) return value.toFixed(digits);
  const below = Math.floor(Math.abs(value) * 10 ** digits);
  const even = below % 2 === 0 ? below : below + 1;
  return `${value < 0 ? '-' : ''}${(even / 10 ** digits).toFixed(digits)}`;
}

function grouped(number: number): string {
  return String(number).replace(/\B(?=(?:\d{3})+$)/g, ',');
}

/** `512 B`, `38.4 GiB`: IEC units, one decimal above bytes, and a minus sign if negative. */
export function size(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  // 1023.95 would be printed as 1024.0, so choose the unit by the rounded number.
  while (unit < UNITS.length - 1 && value >= (unit === 0 ? 1024 : 1023.95)) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? '-' : '';
  return `${sign}${fixed(value, unit === 0 ? 0 : 1)} ${UNITS[unit]}`;
}

/** `+1.5 MiB`, `-512 B`, `0 B`: a change in size. */
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

/** `+22,331`, `-5`, `0`: a change in a count. */
export function signedCount(number: number): string {
  return number > 0 ? `+${count(number)}` : count(number);
}

/** `1 block`, `22,331 blocks`. */
export function counted(number: number, noun: string): string {
  return number === 1 ? `${count(number)} ${noun}` : `${count(number)} ${noun}s`;
}

/** Formats a share from 0.0 to 1.0 as `42.1%`; a share that would round to 0 is `<0.1%`. */
export function percent(share: number): string {
  return share > 0 && share < 0.0005 ? '<0.1%' : `${fixed(share * 100, 1)}%`;
}

/** Formats whole microseconds: `250 us`, `0.412 s`, `2 min 03.5 s`, `1 h 02 min`. */
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

/** `84 us`, `7.87 ms`, `1.25 s`, then like `duration`: with enough digits to compare short times. */
export function fineDuration(us: number): string {
  if (us < 1_000) return `${us} us`;
  if (us < 999_995) return `${fixed(us / 1e3, 2)} ms`;
  return us < 59_995_000 ? `${fixed(us / 1e6, 2)} s` : duration(us);
}
