from headwater.token_bucket import TokenBucket


def test_a_second_has_as_many_tokens_as_the_rate_says_and_no_more_are_saved() -> None:
    bucket = TokenBucket(10, now_ms=0)
    assert sum(bucket.take(0) for _ in range(30)) == 10
    assert sum(bucket.take(500) for _ in range(30)) == 5
    assert sum(bucket.take(100_000) for _ in range(30)) == 10


def test_a_slow_rate_adds_up_over_time() -> None:
    bucket = TokenBucket(1, now_ms=0)
    assert bucket.take(0)
    assert [bucket.take(now_ms) for now_ms in (400, 800, 1200)] == [False, False, True]
