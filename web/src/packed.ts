// The files that the page carries, written in base64: compressed with gzip, but for those that Python unpacks.

export function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  const decoded = atob(text);
  const bytes = new Uint8Array(decoded.length);
  for (let i = 0; i < decoded.length; i++) bytes[i] = decoded.charCodeAt(i);
  return bytes;
}

/** Unpacks a file while its reader reads. Raises an error in old browsers. */
export function unpacked(text: string, type: string): Response {
  const packed = new Blob([bytesOf(text)]).stream();
  const stream = packed.pipeThrough(new DecompressionStream('gzip'));
  return new Response(stream, { headers: { 'content-type': type } });
}
