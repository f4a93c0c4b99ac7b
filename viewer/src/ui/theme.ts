// Light or dark: the system's setting, or the user's choice.

import { computed, signal } from '@preact/signals';

export type Theme = 'auto' | 'light' | 'dark';
export const theme = signal<Theme>('auto');

const system = globalThis.matchMedia?.('(prefers-color-scheme: dark)');
const systemDark = signal(system?.matches ?? false);
system?.addEventListener('change', ({ matches }) => {
  systemDark.value = matches;
});

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
