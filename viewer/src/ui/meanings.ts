// What the measures count, in a line each: a summary of docs/numbers.md.

import type { Measure } from '../core/page.js';

export const MEANINGS: Readonly<Record<Measure, string>> = {
  requested: 'bytes as the code requested them, until the free completes',
  held: 'bytes as the code requested them, until the program releases them; independent of GPU timing',
  active: 'whole blocks, rounded up by the allocator, until the free completes',
  allocated: 'whole blocks, until the program releases them: torch.cuda.memory_allocated()',
  reserved:
    'all memory that the allocator has taken from the driver, used or not: torch.cuda.memory_reserved()',
};
