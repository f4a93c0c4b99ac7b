export function Lanes(_: any) {
  return <p>Lanes</p>;
}
