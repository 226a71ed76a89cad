"""Review by native speakers: a page that works on a phone, one SQLite file, and a data set with people's votes.

From a data set to votes: ``asking`` (what is shown, without the key, and the form of an answer), ``handing_out``
(people, and what each is asked next), ``auth`` (who gets in), ``page_server`` and ``page_parts`` (where people answer),
``recording`` and ``review_file`` (where answers stay), ``findings`` (what they say), ``beat_the_model`` (questions that
people write themselves).
"""
