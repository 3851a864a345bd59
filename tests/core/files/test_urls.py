import pytest

from waltz.core.files.urls import apply_mirror, get_archive_member, get_copy_path, get_file_name


@pytest.mark.parametrize(
    ("url", "file", "member", "copy"),
    [
        ("https://a.org/x/y.pth", "y.pth", "", "a.org/x/y.pth"),
        ("http://a.org/y.zip?dl=1#in/it.json", "y.zip", "in/it.json", "a.org/y.zip_dl_1"),
        ("https://a.org:80/../e%20f/g", "g", "", "a.org_80/_/e_20f/g"),
    ],
)
def test_parts_of_a_url(url, file, member, copy):
    assert (get_file_name(url), get_archive_member(url), get_copy_path(url)) == (file, member, copy)


def test_a_mirror_replaces_the_scheme(monkeypatch):
    monkeypatch.delenv("WALTZ_MIRROR", raising=False)
    assert apply_mirror("https://a.org/y.zip?dl=1#b") == "https://a.org/y.zip?dl=1"
    monkeypatch.setenv("WALTZ_MIRROR", "http://127.0.0.1:1/mirror/")
    assert apply_mirror("https://a.org/y.zip?dl=1#b") == "http://127.0.0.1:1/mirror/a.org/y.zip?dl=1"
