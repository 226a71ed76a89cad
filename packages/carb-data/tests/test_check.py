"""What the checks find in sets made to be found, what they leave alone, and which language a text
is in."""

from __future__ import annotations

import sys

import pytest

pytest.importorskip("lingua", reason="needs the extra 'checks'")
pytest.importorskip("numpy", reason="needs the extra 'checks'")

from carb_data import BonSet, CarbError, Dataset, Perturbation, Role, load
from carb_data.audit import clopper_pearson
from carb_data.check import check
from carb_data.language import check_language, detect_all, in_language
from small_sets import small_set

GERMAN = load("carb-seed").filter(
    lambda item: (
        bool(item.perturbed) and item.domain != "linguistics" and item.culture == "german-de"
    )
)


def with_texts(item: BonSet, texts: list[str], **changes) -> BonSet:
    responses = tuple(
        r.model_copy(update={"text": t}) for r, t in zip(item.responses, texts, strict=True)
    )
    return item.model_copy(update={"responses": responses, "perturbed": (), **changes})


def findings(*items: BonSet) -> list[tuple[str, str, str, str]]:
    report = check(Dataset(items))
    return [(f.severity, f.check, f.item_id, f.field) for f in report.findings]


def test_sound_sets_have_no_findings():
    assert [found for found in findings(*GERMAN) if found[0] == "error"] == []


def test_a_prompt_that_comes_again_is_an_error_and_a_close_one_a_warning():
    first, second, third, fourth = GERMAN[:4]
    copy = second.model_copy(update={"prompt": f" {first.prompt.upper()} "})
    close = third.model_copy(update={"prompt": first.prompt[:-4]})
    assert findings(first, copy, close, fourth) == [
        ("error", "duplicate", second.id, "prompt"),
        ("warning", "near-duplicate", third.id, "prompt"),
    ]


def test_a_response_that_is_right_and_wrong_at_once_is_an_error():
    item = GERMAN[0]
    texts = [r.text for r in item.responses]
    report = check(Dataset([with_texts(item, [texts[0], texts[0] + " !", *texts[2:]])]))
    (finding,) = report.findings
    assert (finding.severity, finding.check, finding.field) == (
        "error",
        "duplicate",
        item.responses[1].id,
    )
    assert not report.passed


def test_a_text_in_another_language_is_a_warning():
    item = GERMAN[0]
    texts = [
        "In this country nobody works on Sunday afternoon",
        *(r.text for r in item.responses[1:]),
    ]
    assert findings(with_texts(item, texts)) == [
        ("warning", "language", item.id, item.responses[0].id)
    ]


def changed(item: BonSet, kind: Perturbation, **changes) -> BonSet:
    first = next(r for r in item.perturbed if r.perturbation is kind)
    return item.model_copy(update={"perturbed": (first.model_copy(update=changes),)})


@pytest.mark.parametrize(
    ("kind", "changes", "severity", "message"),
    [
        (
            Perturbation.RC,
            {"text": "In Deutschland ist sonntags fast alles geschlossen."},
            "error",
            "still names",
        ),
        (
            Perturbation.RP,
            {"text": "Sonntags sind die meisten Läden zu."},
            "warning",
            "no longer names",
        ),
        (
            Perturbation.CC,
            {"language": "en", "text": "In Germany shops open on Sunday."},
            "error",
            "another language",
        ),
        (
            Perturbation.CL,
            {"language": "de", "text": "In Deutschland ist sonntags zu."},
            "error",
            "of its original",
        ),
    ],
)
def test_perturbations_are_held_to_their_definition(kind, changes, severity, message):
    item = next(item for item in GERMAN if item.perturbed)
    report = check(Dataset([changed(item, kind, **changes)]))
    (finding,) = report.findings
    assert (finding.severity, finding.check) == (severity, "perturbation")
    assert message in finding.message


def test_interval_by_hand():
    # Clopper and Pearson: 0 of n gives an upper limit of 1 - (a/2)^(1/n).
    assert clopper_pearson(0.0, 20, 0.05) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(1.0, 20, 0.05) == pytest.approx((0.025 ** (1 / 20), 1.0))


def test_an_empty_data_set_gives_null_and_not_nought():
    report = check(Dataset())
    assert report.passed
    assert {(one.accuracy, one.n) for one in report.audit.attacks} == {(None, 0)}
    assert report.audit.passed


def test_a_family_that_lacks_the_set_of_an_answer_is_a_warning():
    """Three families of three answers: the first whole, the second without a set, the third without
    an answer."""
    texts = ["one answer", "a second one", "the third of them"]

    def mirror(family: str, place: int, shown: int = 3) -> BonSet:
        item = GERMAN[place]
        responses = [
            r.model_copy(
                update={"text": text, "role": Role.CHOSEN if n == place else Role.REJECTED}
            )
            for n, (r, text) in enumerate(zip(item.responses, texts[:shown], strict=False))
        ]
        return item.model_copy(
            update={
                "id": f"{family}-{place}",
                "family": family,
                "responses": tuple(responses),
                "perturbed": (),
            }
        )

    found = [
        *(mirror("whole", place) for place in range(3)),
        *(mirror("short", place) for place in range(2)),
        *(mirror("uneven", place, shown=2 if place == 0 else 3) for place in range(3)),
    ]
    some = [f for f in check(Dataset(found)).findings if f.check == "family"]
    assert [(f.severity, f.item_id, f.field) for f in some] == [
        ("warning", "short-0", "family"),
        ("warning", "uneven-0", "family"),
    ]
    assert "'short' lacks sets: 1 of its 3 answers are right in none" in some[0].message
    assert "'uneven' has sets that show different answers" in some[1].message


SENTENCES = {
    "ar": "يشرب الناس الشاي بعد الغداء كل يوم",
    "zh": "大家吃完午饭以后常常喝茶",
    "en": "People often drink tea after lunch",
    "de": "Nach dem Mittagessen trinken viele Leute Tee",
    "ja": "昼ご飯の後によくお茶を飲みます",
    "ko": "점심을 먹은 뒤에 차를 자주 마신다",
    "ru": "После обеда люди часто пьют чай",
    "es": "Después de comer la gente suele tomar té",
    "th": "หลังอาหารกลางวันคนมักดื่มชา",
    "vi": "Sau bữa trưa mọi người thường uống trà",
}


@pytest.mark.parametrize("tag", SENTENCES)
def test_each_language_is_told_from_the_others(tag):
    assert detect_all([SENTENCES[tag]]) == [tag]
    assert [other for other in SENTENCES if in_language(SENTENCES[tag], other)] == [tag]


@pytest.mark.parametrize("text", ["42", "1,5 %", "🙂", " - "])
def test_texts_without_letters_belong_to_every_language(text):
    assert all(in_language(text, tag) for tag in SENTENCES)


def test_long_and_short_texts_are_told_in_one_call():
    texts = [" ".join([SENTENCES[tag]] * n) for tag in ("de", "es") for n in (1, 8)]
    assert detect_all(texts) == ["de", "de", "es", "es"]


WITH_GRAMMAR = {
    "cs": "Když se host vrátí, neptá se, kde je jeho kabát, ale jen která židle je pro něj",
    "da": "Hvorfor skal jeg ikke bare gå hjem, når jeg også kan blive hos dig efter middagen?",
    "fa": "این مهمان که از راه دور آمده است باید برای همه چیزی با خود بیاورد تا شاد شوند",
    "fi": "Miksi hän ei voi olla siellä, kun tämä on myös sen talon tapa ja niin joka vuosi?",
    "fr": "Quand on est invité chez des gens, qui sont déjà dans la cuisine, on ne vient pas seul",
    "hu": "Miért nem csak az vendég, aki már a ház előtt van, és hogy ha még nem lesz minden kész?",
    "id": "Mengapa mereka tidak bisa datang karena hujan, atau apa yang harus kita bawa untuk dia",
    "it": "Perché non è questo il regalo che gli ospiti della nonna hanno portato anche ieri",
    "nl": "Waarom moet je ook een cadeau meenemen als ze niet van bloemen houden, maar van thee?",
    "pl": "Dlaczego nie jest tak, że gość może przyjść bez prezentu, ale już z kwiatami?",
    "pt": "Quando você não sabe o que levar para a festa, também é muito bom um bolo das suas mãos",
    "sv": "Varför ska jag inte bara gå hem när jag också kan stanna hos dig och äta efter mötet?",
    "tr": "Neden bir misafir için çok şey hazır değil, ama daha sonra her ev gibi çay var?",
    "uk": "Чому він не може бути там, якщо це є дуже важливо для них і для всіх, що вже з ними?",
    "ur": "یہ مہمان جو دور سے آیا ہے اس کے لیے ایک تحفہ ہے اور وہ بھی اچھا ہے",
}


@pytest.mark.parametrize("tag", SENTENCES | WITH_GRAMMAR)
def test_a_text_with_words_of_grammar_has_its_language(tag):
    sentence = (SENTENCES | WITH_GRAMMAR)[tag]
    mixed = f"{SENTENCES['zh']}：{WITH_GRAMMAR['fr']}"
    assert detect_all([sentence, sentence * 5]) == [tag, tag]
    assert detect_all([mixed, "42", ""])[1:] == [None, None]


def test_a_japanese_phrase_makes_no_chinese_question_japanese():
    asked = "在日本朋友家里吃饭以前，大家会一起说一句话，应该说「いただきます」还是说别的？"
    assert detect_all([asked]) == ["zh"]


def test_languages_that_the_detector_lacks_are_counted():
    sets = [small_set(name, ["One", "Two"], language=name) for name in ("ha", "en")]
    assert check(Dataset(sets)).undetected == {"ha": 1}


@pytest.mark.parametrize(
    ("tag", "right"),
    [("jp", "ja"), ("kr", "ko"), ("Deutsch", "de"), ("Thai", "th"), ("thia", "th")],
)
def test_what_is_no_tag_of_a_language_is_refused_with_the_nearest(tag, right):
    with pytest.raises(CarbError, match=f"'{right}'"):
        check_language(tag)


@pytest.mark.parametrize("tag", ["ja", "zh-Hant", "en-US", "und", "yue"])
def test_a_tag_of_a_language_is_accepted(tag):
    check_language(tag)


def test_a_language_that_the_detector_does_not_know_is_not_contradicted():
    assert in_language("Wannan abinci ne mai dadi", "xx")
    assert not in_language(SENTENCES["th"], "xx")


def test_in_a_large_table_of_one_language_a_text_without_its_words_is_in_it():
    """The detector, which has to read its models first, is left out; another language is not."""
    english = ["The guests wait until the host has sat down, and then they eat with her."] * 1_500
    odd = ["Green tea, rice, bread", "Der Gast wartet, bis die Gastgeberin sich gesetzt hat."]
    odd += ["12 + 7", "Гости ждут, пока хозяйка не сядет за стол."]
    assert detect_all(english + odd)[-4:] == ["en", "de", None, "ru"]


def test_the_words_of_a_text_tell_its_language_whatever_stands_beside_them():
    for text in ("the guest and the host were there", "(the) guest; and, were, there: the—host"):
        assert detect_all([text]) == ["en"]


LACKING = {
    "af": ["My broer werk in 'n hospitaal.", "Die kinders loop elke oggend skool toe."],
    "as": ["আপোনাৰ সহায়ৰ বাবে বহুত ধন্যবাদ"],
    "be": ["Мой брат працуе ў бальніцы."],
    "bg": ["Брат ми работи в болница.", "Не знам отговора."],
    "ca": ["El meu germà treballa en un hospital."],
    "cy": ["Mae fy mrawd yn gweithio mewn ysbyty.", "Collodd y tîm neithiwr."],
    "eu": ["Osaba autobusez etorri zen herenegun.", "Zein da zure kolore gogokoena?"],
    "ha": ["Tsohuwar mata tana sayar da gyada.", "Kare yana barci a ƙarƙashin itace."],
    "hr": ["Moj brat radi u bolnici.", "Želim kavu s mlijekom."],
    "ig": ["Nwata ahụ na-ebu ite mmiri n'isi.", "Achọrọ m ịzụta uwe ọhụrụ."],
    "is": ["Bróðir minn vinnur á spítala."],
    "mr": ["मुले रोज सकाळी शाळेत जातात"],
    "mt": ["Iż-żiju xtara dgħajsa ġdida.", "Fejn tixtieq tiekol illejla?"],
    "ne": ["तपाईंको सहयोगका लागि धेरै धन्यवाद"],
    "ps": ["ستاسو د مرستې څخه ډېره مننه"],
    "sk": ["Môj brat pracuje v nemocnici."],
    "so": ["Wiilku wuxuu cabbay caano kulul.", "Guriga dadkiisu way seexdeen."],
    "sq": ["Vëllai im punon në spital."],
    "xh": ["Abantwana badlala ibhola phandle.", "Ilobola ihlawulwa ngeenkomo okanye imali."],
    "yi": ["איך ווייס נישט דעם ענטפֿער"],
    "zu": ["Inja yami ilele ngaphansi kwetafula.", "Siyawuthanda umculo wesintu."],
}
KNOWN = {
    "az": "Qardaşım xəstəxanada işləyir.",
    "bn": "আমার ভাই হাসপাতালে কাজ করে।",
    "cs": "Můj bratr pracuje v nemocnici.",
    "da": "Min bror arbejder på et hospital.",
    "de": "Mein Bruder arbeitet im Krankenhaus.",
    "el": "Ο αδελφός μου δουλεύει σε νοσοκομείο.",
    "en": "Could I get coffee with milk? See https://example.org/drinks/da/menu.",
    "es": "Mi hermano trabaja en un hospital.",
    "fa": "ساعت کار: https://example.org/hours",
    "fi": "Veljeni työskentelee sairaalassa.",
    "fr": "Mon frère travaille dans un hôpital.",
    "he": "אחי עובד בבית חולים.",
    "hi": "मेरा भाई अस्पताल में काम करता है।",
    "hu": "A bátyám kórházban dolgozik.",
    "id": "Kakak saya bekerja di rumah sakit.",
    "it": "Mio fratello lavora in ospedale.",
    "ms": "Abang saya bekerja di hospital.",
    "nl": "Mijn broer werkt in een ziekenhuis.",
    "pl": "Mój brat pracuje w szpitalu.",
    "pt": "Meu irmão trabalha num hospital.",
    "ro": "Fratele meu lucrează într-un spital.",
    "sv": "Min bror jobbar på ett sjukhus.",
    "sw": "Kaka yangu anafanya kazi hospitalini.",
    "tl": "Nagtatrabaho sa ospital ang kuya ko.",
    "tr": "Ağabeyim hastanede çalışıyor.",
    "uk": "Мій брат працює в лікарні.",
    "ur": "میرا بھائی ہسپتال میں کام کرتا ہے",
    "vi": "Anh trai tôi làm việc ở bệnh viện.",
}


def test_a_text_in_a_language_that_the_detector_lacks_is_in_no_other_one():
    texts = [text for some in LACKING.values() for text in some]
    languages = zip(texts, detect_all(texts), strict=True)
    assert {text: tag for text, tag in languages if tag is not None} == {}


def test_short_texts_in_the_detected_languages_keep_their_language():
    assert dict(zip(KNOWN, detect_all([*KNOWN.values()]), strict=True)) == {t: t for t in KNOWN}


def test_texts_of_an_unknown_language_in_a_large_english_table_are_not_english():
    english = ["The guests wait until the host has sat down, and then they eat with her."] * 1_500
    zulu = ["Inja yami ilele ngaphansi kwetafula namhlanje ekuseni kakhulu."] * 2
    assert detect_all(english + zulu)[-2:] == [None, None]


def test_a_mistake_in_the_training_data_is_reported_before_any_attack(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.linear_model", None)  # an attack would end with this

    def training():
        yield "A text."
        raise CarbError("train.jsonl, line 2: no prompt.")

    with pytest.raises(CarbError, match="line 2"):
        check(GERMAN, against=training())
    with pytest.raises(CarbError, match="sklearn"):
        check(GERMAN)
