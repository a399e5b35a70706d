import Head from "./Head.jsx";
import Items from "./Items.jsx";

export default function About() {
  return (
    <main>
      <Head>w9004q2</Head>
      <Items of="about" />
    </main>
  );
}
