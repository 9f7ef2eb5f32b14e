"""German and English captions, with who translates whom: an alignment made by hand.

The eighty pairs are our own. They have the style of Multi30k's image captions (Elliott et al. 2016,
arXiv:1605.00459) and most of their words, and are not among them: a model that is trained on
Multi30k has not seen one. So its cross-attention can be compared with what a reader would draw.

Each pair is written as its German, its English and its links. 3-2 says that German word 3 and
English word 2, counted from zero, say the same; a comma and a full stop count as words. Where one
language needs more words, all are linked: im is "in the", wartet is "is waiting", and both parts of
a verb that separates (hört ... zu) are "listens to". A word to which nothing corresponds has no
link, as an article or a comma that only one of the languages writes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from unmasked.text.sources import directed
from unmasked.translator import Translator


class Caption(NamedTuple):
    german: str
    english: str
    alignment: frozenset[tuple[int, int]]  # (German word, English word) that say the same


def caption_words(sentence: str) -> list[str]:
    """What an alignment counts: whatever stands between blanks, and each of . , ; : by itself."""
    return re.findall(r"[.,;:]|[^\s.,;:]+", sentence)


def read(text: str) -> Iterator[Caption]:
    """Three lines a pair, and an empty line between two pairs."""
    for pair in text.strip().split("\n\n"):
        german, english, links = pair.split("\n")
        ends = (link.split("-") for link in links.split())
        yield Caption(german, english, frozenset((int(i), int(j)) for i, j in ends))


# Mostly frequent words, from short to long. A backslash: the line goes on.
PLAIN = """
Drei Damen trinken Kaffee.
Three ladies drink coffee.
0-0 1-1 2-2 3-3 4-4

Die Braut tanzt barfuß.
The bride dances barefoot.
0-0 1-1 2-2 3-3 4-4

Ein Vater kocht Gemüse.
A father is cooking vegetables.
0-0 1-1 2-2 2-3 3-4 4-5

Zwei Mädchen kaufen Blumen.
Two girls are buying flowers.
0-0 1-1 2-2 2-3 3-4 4-5

Im Regen wartet ein Bus.
A bus is waiting in the rain.
0-4 0-5 1-6 2-2 2-3 3-0 4-1 5-7

Der Clown bläst einen Ballon auf.
The clown blows up a balloon.
0-0 1-1 2-2 3-4 4-5 5-3 6-6

Ein leeres Boot liegt am Ufer.
An empty boat lies on the shore.
0-0 1-1 2-2 3-3 4-4 4-5 5-6 6-7

Kinder malen Bäume an die Wand.
Children are painting trees on the wall.
0-0 1-1 1-2 2-3 3-4 4-5 5-6 6-7

Auf dem Tisch steht ein Kuchen.
There is a cake on the table.
0-4 1-5 2-6 3-1 4-2 5-3 6-7

Eine Dame hält die Hand eines Kindes.
A lady is holding a child's hand.
0-0 1-1 2-2 2-3 4-6 5-4 6-5 7-7

Über dem Feld fliegt ein großer Vogel.
A large bird is flying over the field.
0-5 1-6 2-7 3-3 3-4 4-0 5-1 6-2 7-8

Auf dem Gehweg liegt ein roter Handschuh.
A red glove is lying on the sidewalk.
0-5 1-6 2-7 3-3 3-4 4-0 5-1 6-2 7-8

Eine schwarze Katze schläft auf einem Stuhl.
A black cat is sleeping on a chair.
0-0 1-1 2-2 3-3 3-4 4-5 5-6 6-7 7-8

Ein Vater zeigt seiner Tochter ein blaues Kleid.
A father shows his daughter a blue dress.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8

Ein bärtiger Mann schneidet einem Kunden die Haare.
A bearded man is cutting a customer's hair.
0-0 1-1 2-2 3-3 3-4 4-5 5-6 7-7 8-8

Viele Leute fahren mit der Rolltreppe nach unten.
Many people are going down on the escalator.
0-0 1-1 2-2 2-3 3-5 4-6 5-7 6-4 7-4 8-8

Drei Vögel sitzen auf einem Geländer am Meer.
Three birds sit on a railing by the sea.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 6-7 7-8 8-9

Zwei ältere Herren spielen auf einer Bank Schach.
Two elderly gentlemen are playing chess on a bench.
0-0 1-1 2-2 3-3 3-4 4-6 5-7 6-8 7-5 8-9

Ein nasser Hund schüttelt sich neben dem Schwimmbecken.
A wet dog shakes itself next to the swimming pool.
0-0 1-1 2-2 3-3 4-4 5-5 5-6 6-7 7-8 7-9 8-10

Eine alte Frau verkauft vor der Kirche Getränke.
An old woman sells drinks in front of the church.
0-0 1-1 2-2 3-3 4-5 4-6 4-7 5-8 6-9 7-4 8-10

Zwei Frauen tragen gemeinsam ein Sofa die Treppe hinunter.
Two women carry a sofa down the stairs together.
0-0 1-1 2-2 3-8 4-3 5-4 6-6 7-7 8-5 9-9

Ein Baby sitzt mit einem Ball auf dem Teppich.
A baby is sitting on the carpet with a ball.
0-0 1-1 2-2 2-3 3-7 4-8 5-9 6-4 7-5 8-6 9-10

Ein Kleinkind steckt seine Hand in ein Glas Wasser.
A toddler puts his hand into a glass of water.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-9 9-10

Die Polizistin hilft einem kleinen Kind über die Straße.
The police officer helps a small child across the street.
0-0 1-1 1-2 2-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10

Ein Pferd läuft hinter einem weißen Zaun durchs Gras.
A horse walks through the grass behind a white fence.
0-0 1-1 2-2 3-6 4-7 5-8 6-9 7-3 7-4 8-5 9-10

Ein Skifahrer mit orangefarbenem Helm wartet auf seine Freunde.
A skier with an orange helmet waits for his friends.
0-0 1-1 2-2 3-4 4-5 5-6 6-7 7-8 8-9 9-10

Der Bauarbeiter trägt einen vollen Eimer die Leiter hinauf.
The construction worker carries a full bucket up the ladder.
0-0 1-1 1-2 2-3 3-4 4-5 5-6 6-8 7-9 8-7 9-10

Mehrere Radfahrer ruhen sich im Schatten einer Mauer aus.
Several cyclists are resting in the shade of a wall.
0-0 1-1 2-2 2-3 3-3 4-4 4-5 5-6 6-7 6-8 7-9 8-3 9-10

Ein Mädchen und seine Mutter machen im Garten Seifenblasen.
A girl and her mother are making bubbles in the garden.
0-0 1-1 2-2 3-3 4-4 5-5 5-6 6-8 6-9 7-10 8-7 9-11

Ein Junge mit Brille baut ein Haus aus Sand.
A boy with glasses is building a house out of sand.
0-0 1-1 2-2 3-3 4-4 4-5 5-6 6-7 7-8 7-9 8-10 9-11

Ein alter Mann gießt die Blumen vor seinem Haus.
An old man waters the flowers in front of his house.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 6-7 6-8 7-9 8-10 9-11

Im Museum betrachten zwei Touristen eine Statue ohne Kopf.
In the museum, two tourists look at a statue without a head.
0-0 0-1 1-2 2-6 2-7 3-4 4-5 5-8 6-9 7-10 8-12 9-13

Ein kleiner Junge versteckt sich hinter den Beinen seines Vaters.
A little boy is hiding behind his father's legs.
0-0 1-1 2-2 3-3 3-4 4-4 5-5 7-8 8-6 9-7 10-9

Eine junge Mutter trägt ihr schlafendes Baby auf dem Rücken.
A young mother carries her sleeping baby on her back.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10

Ein langer Weg führt zwischen hohen Bäumen zu einem See.
A long path leads between tall trees to a lake.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10

Ein Mädchen in einem roten Badeanzug taucht nach einem Ball.
A girl in a red swimsuit dives for a ball.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10

Zwei Fischer sitzen in einem kleinen grünen Boot und warten.
Two fishermen sit in a small green boat and wait.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 9-9 10-10

Eine junge Frau repariert in ihrer Garage ein altes Motorrad.
A young woman is repairing an old motorcycle in her garage.
0-0 1-1 2-2 3-3 3-4 4-8 5-9 6-10 7-5 8-6 9-7 10-11

Die Katze schaut aus dem Fenster auf die verschneite Straße.
The cat looks out of the window at the snowy street.
0-0 1-1 2-2 3-3 3-4 4-5 5-6 6-7 7-8 8-9 9-10 10-11

Nach dem Regen springen die Kinder in eine große Pfütze.
After the rain, the children jump into a large puddle.
0-0 1-1 2-2 3-6 4-4 5-5 6-7 7-8 8-9 9-10 10-11

Eine Gruppe von Touristen hört einer Frau mit Mikrofon zu.
A group of tourists listens to a woman with a microphone.
0-0 1-1 2-2 3-3 4-4 4-5 5-6 6-7 7-8 8-10 9-4 9-5 10-11

Am Abend sitzt eine Familie um das Feuer und singt.
In the evening, a family sits around the fire and sings.
0-0 0-1 1-2 2-6 3-4 4-5 5-7 6-8 7-9 8-10 9-11 10-12

Ein Mann schläft im Bus mit dem Kopf am Fenster.
A man is sleeping on the bus with his head against the window.
0-0 1-1 2-2 2-3 3-4 3-5 4-6 5-7 6-8 7-9 8-10 8-11 9-12 10-13

Ein roter Zug fährt an einem See und hohen Bergen vorbei.
A red train passes a lake and high mountains.
0-0 1-1 2-2 3-3 4-3 5-4 6-5 7-6 8-7 9-8 10-3 11-9

Drei junge Hunde kämpfen auf dem Rasen um einen alten Schuh.
Three young dogs fight over an old shoe on the lawn.
0-0 1-1 2-2 3-3 4-8 5-9 6-10 7-4 8-5 9-6 10-7 11-11

Eine Frau mit kurzen Haaren wirft ihrem Hund einen Stock zu.
A woman with short hair throws a stick to her dog.
0-0 1-1 2-2 3-3 4-4 5-5 6-9 7-10 8-6 9-7 10-8 11-11

Ein Straßenmusiker spielt Akkordeon, und ein Paar tanzt zur Musik.
A street musician plays the accordion, and a couple dances to the music.
0-0 1-1 1-2 2-3 3-5 4-6 5-7 6-8 7-9 8-10 9-11 9-12 10-13 11-14

Fünf Jugendliche sitzen auf den Stufen vor der Schule und lachen.
Five teenagers are sitting on the steps in front of the school and laughing.
0-0 1-1 2-2 2-3 3-4 4-5 5-6 6-7 6-8 6-9 7-10 8-11 9-12 10-13 11-14

Zwei Feuerwehrleute klettern auf das Dach, um eine Katze zu fangen.
Two firefighters climb onto the roof to catch a cat.
0-0 1-1 2-2 3-3 4-4 5-5 7-6 8-8 9-9 10-6 11-7 12-10

Eine ältere Dame liest den Kindern unter einem Baum ein Buch vor.
An older lady reads a book to the children under a tree.
0-0 1-1 2-2 3-3 4-7 5-8 6-9 7-10 8-11 9-4 10-5 11-3 12-12

Eine Frau in einem gelben Mantel schiebt ihr Fahrrad durch den Schnee.
A woman in a yellow coat is pushing her bike through the snow.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 6-7 7-8 8-9 9-10 10-11 11-12 12-13

Ein großer Baum ist vor einem gelben Haus auf die Straße gefallen.
A large tree has fallen onto the street in front of a yellow house.
0-0 1-1 2-2 3-3 4-8 4-9 4-10 5-11 6-12 7-13 8-5 9-6 10-7 11-4 12-14

Ein brauner Hund gräbt am Strand neben einem Baumstamm ein großes Loch.
A brown dog digs a large hole beside a tree trunk on the beach.
0-0 1-1 2-2 3-3 4-11 4-12 5-13 6-7 7-8 8-9 8-10 9-4 10-5 11-6 12-14

Zwei Jungen in Fußballtrikots teilen sich auf der Bank eine Flasche Wasser.
Two boys in soccer jerseys are sharing a bottle of water on the bench.
0-0 1-1 2-2 3-3 3-4 4-5 4-6 5-6 6-11 7-12 8-13 9-7 10-8 11-10 12-14

Während die Mutter kocht, malt der Vater mit den Kindern ein Bild.
While the mother is cooking, the father paints a picture with the children.
0-0 1-1 2-2 3-3 3-4 4-5 5-8 6-6 7-7 8-11 9-12 10-13 11-9 12-10 13-14

Eine Frau im Rollstuhl spielt an einem sonnigen Tag mit ihrer Tochter Tennis.
A woman in a wheelchair plays tennis with her daughter on a sunny day.
0-0 1-1 2-2 2-3 3-4 4-5 5-10 6-11 7-12 8-13 9-7 10-8 11-9 12-6 13-14

Auf dem Markt verkauft eine Frau mit einem gelben Kopftuch Obst und Gemüse.
At the market, a woman with a yellow headscarf is selling fruit and vegetables.
0-0 1-1 2-2 3-10 3-11 4-4 5-5 6-6 7-7 8-8 9-9 10-12 11-13 12-14 13-15

Eine lächelnde Dame mit grüner Schürze bringt Kaffee und ein großes Stück Kuchen.
A smiling lady in a green apron is bringing coffee and a large piece of cake.
0-0 1-1 2-2 3-3 4-5 5-6 6-7 6-8 7-9 8-10 9-11 10-12 11-13 12-15 13-16

Ein Läufer trinkt beim Marathon etwas Wasser und wirft den Becher auf die Straße.
A runner drinks some water during the marathon and throws the cup onto the street.
0-0 1-1 2-2 3-5 3-6 4-7 5-3 6-4 7-8 8-9 9-10 10-11 11-12 12-13 13-14 14-15

Der Fotograf kniet im nassen Sand und fotografiert einen Surfer auf einer hohen Welle.
The photographer kneels in the wet sand and takes pictures of a surfer on a high wave.
0-0 1-1 2-2 3-3 3-4 4-5 5-6 6-7 7-8 7-9 7-10 8-11 9-12 10-13 11-14 12-15 13-16 14-17

Ein Mädchen sitzt auf den Schultern seines Vaters und hält sich an seinen Haaren fest.
A girl is sitting on her father's shoulders and holding on to his hair.
0-0 1-1 2-2 2-3 3-4 5-7 6-5 7-6 8-8 9-9 9-10 10-9 11-11 12-12 13-13 14-9 14-10 15-14

Zwölf Kinder in gelben Westen gehen hinter ihrer Lehrerin Hand in Hand über die Straße.
Twelve children in yellow vests walk hand in hand across the street behind their teacher.
0-0 1-1 2-2 3-3 4-4 5-5 6-12 7-13 8-14 9-6 10-7 11-8 12-9 13-10 14-11 15-15

Ein kleines Flugzeug fliegt so tief über den Strand, dass viele Leute nach oben schauen.
A small plane flies so low over the beach that many people look up.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 7-7 8-8 10-9 11-10 12-11 13-13 14-13 15-12 16-14

Ein dunkelhaariger Junge versucht, auf einem Bein zu stehen, während seine Mutter ihn fotografiert.
A dark-haired boy tries to stand on one leg while his mother takes a picture of him.
0-0 1-1 2-2 3-3 5-6 6-7 7-8 8-4 9-5 11-9 12-10 13-11 14-16 15-12 15-13 15-14 15-15 16-17

In einem fast leeren Restaurant sitzt eine Frau mit Kopfhörern am Fenster und schreibt etwas auf \
ihrem Laptop.
In an almost empty restaurant, a woman with headphones is sitting by the window and writing \
something on her laptop.
0-0 1-1 2-2 3-3 4-4 5-10 5-11 6-6 7-7 8-8 9-9 10-12 10-13 11-14 12-15 13-16 14-17 15-18 16-19 \
17-20 18-21

Ein Mann in einem dunklen Anzug geht mit einem großen Regenschirm unter dem Arm zur U-Bahn und \
telefoniert dabei.
A man in a dark suit is walking to the subway with a large umbrella under his arm while talking on \
the phone.
0-0 1-1 2-2 3-3 4-4 5-5 6-6 6-7 7-11 8-12 9-13 10-14 11-15 12-16 13-17 14-8 14-9 15-10 17-19 17-20 \
17-21 17-22 18-18 19-23

Vier Arbeiter in orangefarbenen Westen graben am Straßenrand mit Schaufeln ein tiefes Loch, \
während ein anderer den Verkehr beobachtet.
Four workers in orange vests are digging a deep hole with shovels at the side of the road while \
another watches the traffic.
0-0 1-1 2-2 3-3 4-4 5-5 5-6 6-12 6-13 7-14 7-15 7-16 7-17 8-10 9-11 10-7 11-8 12-9 14-18 15-19 \
16-19 17-21 18-22 19-20 20-23
"""

# Rare words, compounds, and clauses whose verb comes last.
HARDER = """
Der Straßenbahnfahrer winkt einer Fußgängerin zu.
The tram driver waves to a pedestrian.
0-0 1-1 1-2 2-3 3-5 4-6 5-4 6-7

Ein Mann mit nacktem Oberkörper hackt vor einer Berghütte Brennholz.
A shirtless man is chopping firewood in front of a mountain hut.
0-0 1-2 2-1 3-1 4-1 5-3 5-4 6-6 6-7 6-8 7-9 8-10 8-11 9-5 10-12

Ein Schornsteinfeger mit schwarzem Zylinder balanciert über das steile Ziegeldach.
A chimney sweep in a black top hat balances across the steep tiled roof.
0-0 1-1 1-2 2-3 3-5 4-6 4-7 5-8 6-9 7-10 8-11 9-12 9-13 10-14

Ein Imker in Schutzkleidung hält ein Glas Honig in die Höhe.
A beekeeper in protective clothing is holding up a jar of honey.
0-0 1-1 2-2 3-3 3-4 4-5 4-6 5-8 6-9 7-11 8-7 9-7 10-7 11-12

Nach dem Spiel geben sich die Spieler beider Mannschaften die Hand.
After the game, the players of both teams shake hands.
0-0 1-1 2-2 3-9 4-9 5-4 6-5 7-6 7-7 8-8 10-10 11-11

Bei Sonnenuntergang verlässt ein Segelboot mit roten Segeln langsam den Hafen.
At sunset, a sailboat with red sails slowly leaves the port.
0-0 1-1 2-9 3-3 4-4 5-5 6-6 7-7 8-8 9-10 10-11 11-12

Ein Großvater bringt seiner Enkelin bei, wie man einen Fisch fängt.
A grandfather teaches his granddaughter how to catch a fish.
0-0 1-1 2-2 3-3 4-4 5-2 7-5 8-6 9-8 10-9 11-7 12-10

Obwohl es stark regnet, verkauft der Mann mit der grünen Mütze weiter Eis.
Although it is raining heavily, the man with the green cap keeps selling ice cream.
0-0 1-1 2-4 3-2 3-3 4-5 5-13 6-6 7-7 8-8 9-9 10-10 11-11 12-12 13-14 13-15 14-16

Eine Frau, deren Haare blau gefärbt sind, malt ein riesiges Bild an eine Mauer.
A woman whose hair is dyed blue is painting a huge picture on a wall.
0-0 1-1 3-2 4-3 5-6 6-5 7-4 9-7 9-8 10-9 11-10 12-11 13-12 14-13 15-14 16-15

Ein weißes Pferd, das von einem Mädchen geritten wird, springt über einen niedrigen Zaun.
A white horse that is being ridden by a girl jumps over a low fence.
0-0 1-1 2-2 4-3 5-7 6-8 7-9 8-6 9-4 9-5 11-10 12-11 13-12 14-13 15-14 16-15

Der Junge, der gerade vom Fahrrad gefallen ist, weint, und seine Schwester tröstet ihn.
The boy who has just fallen off his bike is crying, and his sister is comforting him.
0-0 1-1 3-2 4-4 5-6 5-7 6-8 7-5 8-3 10-9 10-10 11-11 12-12 13-13 14-14 15-15 15-16 16-17 17-18

Ein Eisverkäufer reicht einem Mädchen, das auf Zehenspitzen steht, eine Waffel mit drei Kugeln \
Schokoladeneis.
An ice cream vendor hands a cone with three scoops of chocolate ice cream to a girl who is \
standing on tiptoe.
0-0 1-1 1-2 1-3 2-4 3-15 4-16 6-17 7-20 8-21 9-18 9-19 11-5 12-6 13-7 14-8 15-9 16-11 16-12 16-13 \
17-22

Ein alter Fischer, der hohe Stiefel trägt, zieht am frühen Morgen ein schweres Netz voller Fische \
in sein kleines blaues Boot.
An old fisherman wearing high boots pulls a heavy net full of fish into his small blue boat early \
in the morning.
0-0 1-1 2-2 4-3 5-4 6-5 7-3 9-6 10-19 10-20 11-18 12-21 13-7 14-8 15-9 16-10 16-11 17-12 18-13 \
19-14 20-15 21-16 22-17 23-22
"""

CAPTIONS: tuple[Caption, ...] = (*read(PLAIN), *read(HARDER))


# --- As a model reads them --------------------------------------------------------------------


def caption_pairs(translator: Translator) -> list[tuple[str, str]]:
    """Source and target, in this model's direction."""
    return directed([(c.german, c.english) for c in CAPTIONS], *direction(translator))


def direction(translator: Translator) -> tuple[str, str]:
    """From which language to which; a model of the phrasebook, which does not say, from German."""
    return translator.languages or ("de", "en")
