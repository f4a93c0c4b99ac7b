// Light or dark: the system's setting, that of the page around this one, or the user's choice.

import { computed, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
export const theme = signal<Theme>('auto');

const system = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
const systemDark = signal(system?.matches ?? false);
system?.addEventListener('change', ({ matches }) => {
  systemDark.value = matches;
});
// A frame with another origin doesn't take over its page's style.
if (system) {
  globalThis.addEventListener('message', ({ data }: MessageEvent<{ dark?: unknown } | null>) => {
    if (typeof data?.dark === 'boolean') systemDark.value = data.dark;
  });
}

export const dark = computed(() =>
  theme.value === 'auto' ? systemDark.value : theme.value === 'dark',
);

/** Sets the page's style. */
export function applyTheme(): void {
  document.documentElement.dataset['theme'] = dark.value ? 'dark' : 'light';
}

export function nextTheme(): void {
  theme.value = dark.value ? 'light' : 'dark';
}
