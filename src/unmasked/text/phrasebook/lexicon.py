"""Lists the phrasebook's German and English words, with every form that no rule gives."""

from collections.abc import Iterator
from typing import NamedTuple


class Noun(NamedTuple):
    article: str  # der, die, das: its gender
    german: str
    german_plural: str
    english: str
    english_plural: str
    kind: str


class Adjective(NamedTuple):
    german: str
    english: str
    kinds: tuple[str, ...]  # of nouns that it goes with


class Verb(NamedTuple):
    particle: str  # of a separable verb: it leaves for the end of the clause
    infinitive: str
    du: str
    er: str
    auxiliary: str  # of the perfect: hat or ist
    participle: str
    english: str
    past: str
    english_participle: str
    kinds: tuple[str, ...]  # of its objects; none: it has no object


class Pronoun(NamedTuple):
    german: str
    german_object: str
    english: str
    english_object: str
    person: int
    plural: bool


class Adverb(NamedTuple):
    german: str
    english: str


class Preposition(NamedTuple):
    german: str
    english: str
    places: tuple[str, ...]  # the nouns it goes with


def rows(table: str) -> Iterator[list[str]]:
    """Yields each line of a text as a list of its words; `_` stands for a blank within one."""
    for line in table.strip().splitlines():
        yield [cell.replace("_", " ") for cell in line.split()]


NOUNS = [
    Noun(*row)
    for row in rows(
        """
        der mann männer man men person
        die frau frauen woman women person
        das kind kinder child children person
        der lehrer lehrer teacher teachers person
        die ärztin ärztinnen doctor doctors person
        der freund freunde friend friends person
        die schwester schwestern sister sisters person
        der hund hunde dog dogs animal
        die katze katzen cat cats animal
        das pferd pferde horse horses animal
        das bier - beer - drink
        die cola - coke - drink
        der kaffee - coffee - drink
        der tee - tea - drink
        der apfel äpfel apple apples food
        die banane bananen banana bananas food
        der keks kekse biscuit biscuits food
        die pizza pizzas pizza pizzas food
        das ei eier egg eggs food
        das buch bücher book books text
        der brief briefe letter letters text
        die zeitung zeitungen newspaper newspapers text
        das auto autos car cars thing
        der ball bälle ball balls thing
        der stuhl stühle chair chairs thing
        die uhr uhren clock clocks thing
        die lampe lampen lamp lamps machine
        das radio radios radio radios machine
        der computer computer computer computers machine
        die tür türen door doors opening
        das fenster fenster window windows opening
        der koffer koffer suitcase suitcases opening
        die jacke jacken jacket jackets clothing
        der hut hüte hat hats clothing
        das hemd hemden shirt shirts clothing
        der garten gärten garden gardens place
        die küche küchen kitchen kitchens place
        das haus häuser house houses place
        die stadt städte town towns place
        der tisch tische table tables place
        das bett betten bed beds place
        """
    )
]

LIVING = ("person", "animal")
SMALL = ("food", "text", "thing", "machine", "clothing")
OBJECTS = (*SMALL, "opening")
ANYTHING = (*LIVING, *OBJECTS, "drink")
KINDS = {"living": LIVING, "small": SMALL, "objects": OBJECTS, "anything": ANYTHING}

WITHOUT_OWNER = ("mann", "frau")  # sein mann is her husband, not her man


def kinds(names: str) -> tuple[str, ...]:
    """Returns the kinds of nouns that a text lists: `drink,living` is drink, person and animal."""
    named = [] if names == "-" else names.split(",")
    return tuple(kind for name in named for kind in KINDS.get(name, (name,)))


ADJECTIVES = [
    Adjective(german, english, kinds(names))
    for german, english, names in rows(
        """
        alt old living,text,thing,machine,opening,clothing,place
        neu new text,thing,machine,opening,clothing
        jung young living
        groß big animal,food,thing,machine,opening,place
        klein small living,food,thing,machine,opening,place
        schön beautiful animal,text,thing,clothing,place
        gut good person,drink,food,text
        kalt cold drink,food
        rot red thing,machine,opening,clothing
        billig cheap drink,food,text,thing,machine,clothing
        freundlich friendly living
        """
    )
]
MOODS = [
    Adjective(german, english, LIVING)
    for german, english in rows("müde tired\n hungrig hungry\n krank ill\n glücklich happy")
]


def verbs(table: str) -> list[Verb]:
    """Returns the verbs of a table, one a line, in which `auf+machen` is a separable one."""
    made = []
    for infinitive, *forms, names in rows(table):
        particle, _, bare = infinitive.rpartition("+")
        made.append(Verb._make([particle, bare, *forms, kinds(names)]))
    return made


VERBS = verbs(
    """
    trinken trinkst trinkt hat getrunken drink drank drunk drink
    essen isst isst hat gegessen eat ate eaten food
    kaufen kaufst kauft hat gekauft buy bought bought animal,drink,objects
    verkaufen verkaufst verkauft hat verkauft sell sold sold objects
    lesen liest liest hat gelesen read read read text
    schreiben schreibst schreibt hat geschrieben write wrote written text
    sehen siehst sieht hat gesehen see saw seen anything
    suchen suchst sucht hat gesucht look_for looked_for looked_for living,small
    finden findest findet hat gefunden find found found living,small
    brauchen brauchst braucht hat gebraucht need needed needed living,drink,objects
    lieben liebst liebt hat geliebt love loved loved person,animal
    besuchen besuchst besucht hat besucht visit visited visited person
    auf+machen machst macht hat aufgemacht open opened opened opening
    zu+machen machst macht hat zugemacht close closed closed opening
    an+rufen rufst ruft hat angerufen call called called person
    an+sehen siehst sieht hat angesehen look_at looked_at looked_at living,text,thing,clothing
    ein+schalten schaltest schaltet hat eingeschaltet turn_on turned_on turned_on machine
    aus+schalten schaltest schaltet hat ausgeschaltet turn_off turned_off turned_off machine
    an+ziehen ziehst zieht hat angezogen put_on put_on put_on clothing
    aus+ziehen ziehst zieht hat ausgezogen take_off took_off taken_off clothing
    ab+holen holst holt hat abgeholt pick_up picked_up picked_up person,small
    mit+bringen bringst bringt hat mitgebracht bring brought brought animal,drink,small
    weg+werfen wirfst wirft hat weggeworfen throw_away threw_away thrown_away small
    schlafen schläfst schläft hat geschlafen sleep slept slept -
    arbeiten arbeitest arbeitet hat gearbeitet work worked worked -
    warten wartest wartet hat gewartet wait waited waited -
    tanzen tanzt tanzt hat getanzt dance danced danced -
    kommen kommst kommt ist gekommen come came come -
    an+kommen kommst kommt ist angekommen arrive arrived arrived -
    zurück+kommen kommst kommt ist zurückgekommen come_back came_back come_back -
    auf+stehen stehst steht ist aufgestanden get_up got_up got_up -
    ein+schlafen schläfst schläft ist eingeschlafen fall_asleep fell_asleep fallen_asleep -
    """
)
BY_ANIMALS = ("sehen", "suchen", "finden", "lieben", "schlafen", "warten", "kommen")
STAYING = ("schlafen", "arbeiten", "warten", "tanzen")  # in one place: one can ask where
FEELINGS = ("möchten", "brauchen", "lieben")  # in the present only, without modal or time
[WANT] = verbs("möchten möchtest möchte - - want wanted wanted drink,food")
[LIE] = verbs("liegen liegst liegt hat gelegen be - - -")
[BE] = verbs("sein bist ist - - be - - -")
[HAVE] = verbs("haben hast hat - - have - - -")
SAYING = verbs(
    """
    wissen weißt weiß - - know - - -
    glauben glaubst glaubt - - believe - - -
    sagen sagst sagt - - say - - -
    denken denkst denkt - - think - - -
    """
)
MODALS = verbs(
    """
    können kannst kann - - can - - -
    müssen musst muss - - must - - -
    dürfen darfst darf - - may - - -
    sollen sollst soll - - should - - -
    möchten möchtest möchte - - want_to - - -
    """
)
IRREGULAR = {  # what ich and ihr say, where it is not the infinitive's
    "sein": ("bin", "seid"),
    "wissen": ("weiß", "wisst"),
    "können": ("kann", "könnt"),
    "müssen": ("muss", "müsst"),
    "dürfen": ("darf", "dürft"),
    "sollen": ("soll", "sollt"),
}

PRONOUNS = [
    Pronoun("ich", "mich", "i", "me", 1, False),
    Pronoun("du", "dich", "you", "you", 2, False),
    Pronoun("er", "ihn", "he", "him", 3, False),
    Pronoun("sie", "-", "she", "-", 3, False),  # as objects, her and them are the same word
    Pronoun("wir", "uns", "we", "us", 1, True),
    Pronoun("ihr", "euch", "you", "you", 2, True),
    Pronoun("sie", "-", "they", "-", 3, True),
]
WHO = Pronoun("wer", "wen", "who", "who", 3, False)
WHAT = Pronoun("-", "was", "-", "what", 3, False)
POSSESSIVES = {"mein": "my", "dein": "your", "sein": "his"}

YESTERDAY, TODAY, TOMORROW = (
    Adverb(*row) for row in rows("gestern yesterday\n heute today\n morgen tomorrow")
)
HABITS = [Adverb(*row) for row in rows("morgens in_the_morning\n abends in_the_evening")]
FREQUENCIES = [Adverb(*row) for row in rows("oft often\n immer always\n manchmal sometimes")]
WHEN, WHERE = Adverb("wann", "when"), Adverb("wo", "where")
PREPOSITIONS = [
    Preposition(german, english, tuple(places.split(",")))
    for german, english, places in rows(
        "in in garten,küche,haus,stadt\n auf on tisch,bett\n unter under tisch,bett"
    )
]
